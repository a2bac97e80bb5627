// Draws charts when they come into view. The library is text in the page until the first chart needs it.
const series = block("series-data");
const drawn = new Map(); // by figure: its rows, its width and its look
let embedding = null;

function library() {
  if (!embedding) {
    embedding = new Promise((resolve, reject) => {
      const text = byId("library").textContent;
      if (!text) return reject(new Error("the page holds no library"));
      const script = document.createElement("script");
      script.textContent = text; // its hash is in the policy of the page
      document.head.append(script);
      const found = window[series.library];
      found ? resolve(found) : reject(new Error("the library did not start"));
    });
  }
  return embedding;
}

// A scale has only the backends that are there. The page has its own key, which wraps where it is narrow.
function keepPresent(spec, rows) {
  const present = new Set(rows.map((row) => row.backend));
  const visit = (part) => {
    if (Array.isArray(part)) return part.forEach(visit);
    if (part === null || typeof part !== "object") return;
    if (part.field === "backend" && part.scale) {
      const kept = part.scale.domain.map((name, place) => [name, part.scale.range[place]]).filter(([name]) => present.has(name));
      part.scale = { domain: kept.map(([name]) => name), range: kept.map(([, value]) => value) };
      part.legend = null;
    }
    Object.values(part).forEach(visit);
  };
  visit(spec.encoding ?? {});
  visit(spec.layer ?? []);
}

async function draw(figure) {
  const plot = figure.querySelector(".plot");
  const width = Math.floor(plot.clientWidth);
  const before = drawn.get(figure);
  if (!before || !width || (before.width === width && before.look === look())) return;
  before.width = width;
  before.look = look();
  const { specs, config } = block("chart-specs")[look()];
  const spec = structuredClone(specs[figure.dataset.chart]);
  keepPresent(spec, before.rows);
  if (before.adapt) before.adapt(spec);
  if (figure.dataset.chart === "calls" && width < 420) narrowCalls(spec);
  spec.width = width;
  spec.data = { name: "rows", values: structuredClone(before.rows) };
  const key = figure.querySelector(".series-key");
  if (key) key.replaceChildren(...seriesKey(before.rows.map((row) => row.backend)));
  const embed = await library();
  before.result?.finalize();
  before.result = await embed(plot, spec, {
    mode: "vega-lite", config, ast: true, actions: false, defaultStyle: false, renderer: "svg", tooltip: showTip,
  });
  plot.dataset.drawn = look();
}

const markPaths = {
  circle: "M0,-4a4,4 0 1,0 0.01,0Z", square: "M-3.6,-3.6h7.2v7.2h-7.2Z", "triangle-up": "M0,-4.4L4.4,3.6H-4.4Z",
  diamond: "M0,-4.8L4.8,0L0,4.8L-4.8,0Z", "triangle-down": "M0,4.4L4.4,-3.6H-4.4Z",
  cross: "M-1.6,-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3Z", "triangle-right": "M4.4,0L-3.6,4.4V-4.4Z",
  "triangle-left": "M-4.4,0L3.6,4.4V-4.4Z",
};

function mark(name) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  for (const [key, value] of Object.entries({ width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" })) picture.setAttribute(key, value);
  const path = document.createElementNS(space, "path");
  const place = series.names.indexOf(name);
  path.setAttribute("d", markPaths[series.shapes[place]] ?? "M-5,-1.2h10v2.4h-10Z"); // the bar of the baseline
  path.setAttribute("fill", series[look()][place]);
  picture.append(path);
  return picture;
}

// The marks and names of some backends, in the order of the page.
function seriesKey(names) {
  const present = new Set(names);
  return series.names.filter((name) => present.has(name)).map((name) => make("span", {}, mark(name), name));
}

// On a phone, the long names of the ways to call a kernel take two lines each.
function narrowCalls(spec) {
  const axis = spec.encoding.y.axis;
  axis.labelExpr = "split(replace(datum.label, ' (', ', ('), ', ')";
  axis.labelFontSize = 11;
  axis.labelLimit = 130;
  spec.height = { step: 42 };
  for (const layer of spec.layer) layer.encoding.x.scale.padding = 34;
}

// One after the other, so that the page answers in between.
let queue = Promise.resolve();
function enqueue(figure) {
  queue = queue.then(() => draw(figure)).catch((error) => {
    figure.querySelector(".plot").textContent = `This chart could not be drawn: ${error.message}`;
    console.error(error);
  });
  return queue;
}

const inView = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) enqueue(entry.target);
  }
}, { rootMargin: "300px 0px" });

function addChart(figure, rows, adapt) {
  drawn.set(figure, { rows, adapt });
  inView.observe(figure);
  const numbers = figure.querySelector(".numbers");
  if (numbers) numbers.addEventListener("toggle", () => numbers.open && fillNumbers(numbers, figure, rows), { once: true });
}

function removeChart(figure) {
  inView.unobserve(figure);
  drawn.get(figure)?.result?.finalize();
  drawn.delete(figure);
}

// The numbers of a chart as a table, for those who cannot see it.
function fillNumbers(numbers, figure, rows) {
  const fields = JSON.parse(figure.dataset.columns);
  const head = make("tr", {}, Object.values(fields).map((title) => make("th", { scope: "col" }, title)));
  const body = rows.filter((row) => !row.line).map((row) => make("tr", {}, Object.keys(fields).map((name, place) =>
    make(place ? "td" : "th", place ? {} : { scope: "row", class: "left" }, row[name] ?? ""))));
  const title = figure.querySelector("h4")?.textContent ?? "Numbers";
  numbers.append(scrolling(title, make("table", {}, make("thead", {}, head), make("tbody", {}, body))));
}

let tip = null;
function showTip(handler, event, item, value) {
  tip?.remove();
  tip = null;
  if (!value || typeof value !== "object") return;
  const list = make("dl", {});
  for (const [name, text] of Object.entries(value)) {
    if (text !== undefined && text !== null && text !== "" && text !== "undefined") list.append(make("dt", {}, name), make("dd", {}, String(text)));
  }
  tip = make("div", { class: "tip", role: "tooltip" }, list);
  (byId("cell").open ? byId("cell") : document.body).append(tip);
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 16}px`;
}

function startDrawing() {
  const rows = block("chart-data");
  for (const figure of document.querySelectorAll("figure[data-rows]")) addChart(figure, rows[figure.dataset.rows]);
  const again = () => {
    for (const figure of drawn.keys()) {
      const box = figure.getBoundingClientRect();
      if (drawn.get(figure).look) box.bottom > -300 && box.top < innerHeight + 300 ? enqueue(figure) : waitAgain(figure);
    }
  };
  const waitAgain = (figure) => { inView.unobserve(figure); inView.observe(figure); };
  themeListeners.push(again);
  let timer = 0;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(again, 150); });
  byId("print").addEventListener("click", async () => {
    for (const figure of drawn.keys()) enqueue(figure);
    await queue;
    print();
  });
}
