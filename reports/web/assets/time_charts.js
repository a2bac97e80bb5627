// Builds a chart of time against size for each operator of a device and dtype.
const baseline = "jnp";

function timedGroups() {
  const groups = new Map();
  if (!columns.has("time")) return groups;
  const kind = columns.get("kind");
  for (let index = 0; index < cellData.count; index++) {
    if (numberOf("time", index) === null || word(kind, index) !== "timed") continue;
    const place = [textOf("device", index), textOf("dtype", index)].join("\n");
    const label = [textOf("operator", index), textOf("variant", index)].filter(Boolean).join(" \u00b7 ");
    if (!groups.has(place)) groups.set(place, new Map());
    const own = groups.get(place);
    if (!own.has(label)) own.set(label, []);
    own.get(label).push(index);
  }
  return groups;
}

function timeRow(index) {
  const texts = { backend: textOf("backend", index), size_text: textOf("size", index), time_text: textOf("time", index) };
  return {
    ...texts, size: numberOf("size", index), time_s: numberOf("time", index) * 1e-9,
    low_s: numberOf("low", index) * 1e-9, high_s: numberOf("high", index) * 1e-9, range_text: textOf("low", index),
    ratio_text: textOf("ratio", index), said: `${texts.backend}, ${texts.size_text} elements: ${texts.time_text}`,
  };
}

function startTimeCharts() {
  const grid = byId("time-charts");
  if (!grid) return;
  const groups = timedGroups();
  const devices = [...new Set([...groups.keys()].map((key) => key.split("\n")[0]))];
  const dtypesOf = (device) => [...groups.keys()].map((key) => key.split("\n")).filter(([own]) => own === device).map(([, dtype]) => dtype);
  let shown = "";

  function build() {
    const device = devices.includes(state.get("tdevice")) ? state.get("tdevice") : devices[0];
    const dtypes = dtypesOf(device);
    const usual = dtypes.includes("f32") ? "f32" : dtypes[0];
    const dtype = dtypes.includes(state.get("tdtype")) ? state.get("tdtype") : usual;
    const operator = state.get("toperator") ?? "";
    const key = [device, dtype, operator, look()].join("\n");
    if (key === shown) return;
    shown = key;
    const own = groups.get([device, dtype].join("\n")) ?? new Map();
    const labels = [...own.keys()].sort();
    const options = (values) => values.map((value) => [value, value]);
    const controls = [];
    if (devices.length > 1) controls.push(choice("device", "tdevice", options(devices), device, (value) => setState({ tdevice: value, tdtype: null, toperator: null })));
    if (dtypes.length > 1) controls.push(choice("dtype", "tdtype", options(dtypes), dtype, (value) => setState({ tdtype: value })));
    if (labels.length > 1) {
      const entries = [["", `all ${labels.length} operators`], ...options(labels)];
      controls.push(choice("operator", "toperator", entries, operator, (value) => setState({ toperator: value })));
    }
    byId("time-controls").replaceChildren(...controls);
    byId("time-key").replaceChildren(...seriesKey([...own.values()].flat().map((index) => textOf("backend", index))));
    for (const figure of grid.querySelectorAll("figure")) removeChart(figure);
    grid.replaceChildren(...labels.filter((label) => !operator || label === operator).map((label) => {
      const rows = own.get(label).map(timeRow).sort((one, other) => one.size - other.size);
      const fields = { backend: "backend", size_text: "elements", time_text: "time", range_text: "processes", ratio_text: `time / ${baseline}` };
      const figure = make("figure", { class: "chart", "data-chart": "times", "data-columns": JSON.stringify(fields) },
        make("figcaption", {}, make("h4", {}, label)), make("div", { class: "plot" }),
        make("details", { class: "numbers" }, make("summary", {}, "Numbers")));
      addChart(figure, rows, (spec) => { spec.encoding.x.axis.values = [...new Set(rows.map((row) => row.size))]; });
      return figure;
    }));
  }
  build();
  listeners.push((names) => names.some((name) => name.startsWith("t")) && build());
  themeListeners.push(build);
}
