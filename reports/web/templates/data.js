// What the page was given: numbers in columns, compressed; read once, when first needed.

const unpacked = new Map();

function unpack(name) {
  if (!unpacked.has(name)) unpacked.set(name, decompress(document.getElementById(`data-${name}`).textContent));
  return unpacked.get(name);
}

// null where the page had no room for it.
async function decompress(letters) {
  if (!letters) return null;
  const binary = atob(letters);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place++) bytes[place] = binary.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// Text is always set as text: nothing that a trial says is ever read as HTML.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// As the tables say it: `decimals`, or three significant digits and whole numbers from 100 on.
function numberText(value, decimals = null) {
  if (typeof value !== "number") return "–";
  const places = decimals ?? (value ? Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))) : 0);
  return value.toFixed(Math.min(places, 12));
}

// Up to six significant digits, in thin groups of three from five figures on.
function readable(value) {
  const size = Math.abs(value);
  if (size && (size < 1e-4 || size >= 1e12)) return value.toPrecision(3);
  return value.toLocaleString("en", { maximumSignificantDigits: 6, useGrouping: size >= 1e4 }).replace(/,/g, "\u2009");
}

const byText = new Intl.Collator("en", { numeric: true }).compare;

// Numbers before words before nothing, whichever way they are sorted.
function compare(one, other, direction) {
  const rank = (value) =>
    typeof value === "number" ? 0 : value === null || value === undefined || value === "" ? 2 : 1;
  if (rank(one) !== rank(other)) return rank(one) - rank(other);
  if (rank(one) === 2) return 0;
  return direction * (rank(one) === 0 ? one - other : byText(one, other));
}
