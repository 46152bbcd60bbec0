// What the report's page draws with, of Apache ECharts. tools/echarts.sh makes one file of it.
export { init } from "echarts/core";
import { CustomChart, LineChart } from "echarts/charts";
import { GraphicComponent, GridComponent, TitleComponent, TooltipComponent } from "echarts/components";
import { use } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";

use([CustomChart, LineChart, GraphicComponent, GridComponent, TitleComponent, TooltipComponent, SVGRenderer]);
