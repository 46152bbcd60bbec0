#!/usr/bin/env bash
# tools/echarts.sh: make the part of Apache ECharts that the report's page draws with anew, of the versions below, byte
# for byte; it needs Node.js with npm. Then write its sha256 into VENDORED.toml.
set -euo pipefail
cd "$(dirname "$0")"
vendor=$PWD/../reports/web/templates/vendor/echarts
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp echarts.js "$build"
cd "$build"
npm install --silent --no-audit --no-fund --no-save --no-package-lock --ignore-scripts \
    echarts@6.1.0 zrender@6.1.0 tslib@2.3.0 esbuild@0.25.12
node_modules/.bin/esbuild echarts.js --bundle --minify --format=iife --global-name=echarts --target=es2020 \
    --charset=ascii --legal-comments=eof --define:process.env.NODE_ENV='"production"' \
    --banner:js='/*! Apache ECharts 6.1.0, a part of it (tools/echarts.js) */' \
    --outfile="$vendor/echarts.min.js"
cp node_modules/echarts/NOTICE node_modules/echarts/LICENSE "$vendor"
cp node_modules/echarts/licenses/LICENSE-d3 "$vendor"
sha256sum "$vendor/echarts.min.js"
