// What the page does beyond being read: theme, copying, and charts that are drawn when they come into view.
(() => {
  "use strict";
  const root = document.documentElement;
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const values = (id) => JSON.parse(document.getElementById(id).textContent);
  const say = (words) => { document.getElementById("said").textContent = words; };

  // Theme: the system's, until the button is pressed.
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const remembered = () => { try { return localStorage.getItem("opl-theme"); } catch { return null; } };
  const remember = (name) => { try { localStorage.setItem("opl-theme", name); } catch { /* a file may not */ } };
  const button = document.getElementById("theme");
  const label = () => {
    const other = isDark() ? "Light" : "Dark";
    button.textContent = other;
    button.setAttribute("aria-label", `${other} theme`);
  };
  const setTheme = (name) => { root.dataset.theme = name; label(); recolor(); };
  if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
  button.addEventListener("click", () => {
    const name = isDark() ? "light" : "dark";
    remember(name);
    setTheme(name);
    say(`${name} theme`);
  });
  system.addEventListener("change", () => { label(); recolor(); });

  // Copying: the clipboard where it is allowed, else the old way, which a page from a file may still use.
  const byHand = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "hidden";
    area.setAttribute("aria-hidden", "true");
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); return true; } catch { return byHand(text); }
  };
  for (const each of all("[data-copy]")) {
    const words = each.textContent;
    each.addEventListener("click", async () => {
      const done = await copy(document.getElementById(each.dataset.copy).textContent);
      each.textContent = done ? "Copied" : "Select and copy by hand";
      each.classList.toggle("copied", done);
      if (!done) document.getElementById(each.dataset.copy).hidden = false;
      say(done ? "Copied to the clipboard" : "Copying is not allowed here: the text is shown below");
      each.focus();
      setTimeout(() => { each.textContent = words; each.classList.remove("copied"); }, 2000);
    });
  }

  // Where the reader is.
  const links = new Map(all(".bar nav a").map((link) => [link.hash.slice(1), link]));
  const inView = new Set();
  const spy = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) inView[isIntersecting ? "add" : "delete"](target.id);
    const current = [...links.keys()].find((id) => inView.has(id));
    for (const [id, link] of links) {
      if (id !== current) { link.removeAttribute("aria-current"); continue; }
      link.setAttribute("aria-current", "true");
      const nav = link.closest("nav");
      nav.scrollTo({ left: link.offsetLeft - nav.offsetLeft - 24 });
    }
  }, { rootMargin: "-15% 0px -65% 0px" });
  for (const section of all("main > section")) spy.observe(section);

  // Charts.
  const charts = all(".chart");
  const drawn = new Set();
  const library = () => {
    if (window.Plotly) return;
    const script = document.createElement("script");
    script.textContent = document.getElementById("plotly").textContent;
    document.head.append(script);
  };
  const probe = document.createElement("span");
  const color = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const theme = (layout) => {
    document.body.append(probe);
    const [ink, quiet, rule, raised, edge] = ["ink", "quiet", "rule", "raised", "edge"].map(color);
    probe.remove();
    const changes = {
      "font.color": ink, "hoverlabel.bgcolor": raised, "hoverlabel.bordercolor": edge, "hoverlabel.font.color": ink,
    };
    for (const axis of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
      changes[`${axis}.gridcolor`] = rule;
      changes[`${axis}.zerolinecolor`] = edge;
      changes[`${axis}.linecolor`] = edge;
      changes[`${axis}.tickfont.color`] = quiet;
      if (layout.hovermode === "x unified" && axis === "xaxis") {
        changes["xaxis.spikecolor"] = edge;
        changes["xaxis.spikethickness"] = 1;
      }
    }
    return changes;
  };
  const put = (object, path, value) => {
    const keys = path.split(".");
    const last = keys.pop();
    keys.reduce((inner, key) => (inner[key] ??= {}), object)[last] = value;
  };
  const recolor = () => { for (const chart of drawn) Plotly.relayout(chart, theme(chart.layout)); };

  // What a chart shows now: its check boxes, its kind of curve, its order of classes.
  const checked = (selector) => document.querySelector(`${selector}:checked`);
  const kindOf = (group) => checked(`[data-kind="${group}"]`)?.value;
  const visible = (chart) => {
    const group = chart.dataset.group;
    const boxes = all(`[data-filter="${group}"]`);
    const on = new Map(boxes.map((box) => [box.dataset.name, box.checked]));
    const kind = kindOf(group);
    return (trace) => (on.get(trace.legendgroup) ?? true) && (!kind || !trace.meta || trace.meta.kind === kind);
  };
  const permuted = (trace, order) => ({
    ...trace, x: order.map((i) => trace.x[i]), y: order.map((i) => trace.y[i]),
    z: order.map((i) => order.map((j) => trace.z[i][j])),
  });
  const spec = (chart) => {
    const { data, layout } = values(chart.dataset.values);
    const shows = visible(chart);
    const order = checked(`[data-order="${chart.dataset.group}"]`);
    const orders = order && values(order.closest("[data-orders]").dataset.orders);
    for (const [i, trace] of data.entries()) {
      trace.visible = shows(trace);
      if (orders) data[i] = { ...permuted(trace, orders[order.value]), showscale: false };
    }
    if (chart.dataset.shape) delete layout.height;
    if (kindOf(chart.dataset.group) === "seed") layout.hovermode = "closest"; // one line, not all of them
    layout.autosize = true;
    layout.dragmode = pointing.matches ? "zoom" : false; // a finger scrolls the page
    if (chart.dataset.group) { // its legend is the check boxes
      layout.showlegend = false;
      layout.margin.t = 10;
    }
    for (const [path, value] of Object.entries(theme(layout))) put(layout, path, value);
    return { data, layout };
  };
  const pointing = matchMedia("(hover: hover)");
  const config = { responsive: true, displayModeBar: false, doubleClick: "reset" };
  const draw = (chart) => {
    library();
    const { data, layout } = spec(chart);
    drawn.add(chart);
    return Plotly.react(chart, data, layout, config);
  };
  const redraw = (group) => {
    for (const chart of charts) if (chart.dataset.group === group && drawn.has(chart)) draw(chart);
  };
  for (const name of ["filter", "kind", "order"]) {
    for (const input of all(`[data-${name}]`)) input.addEventListener("change", () => redraw(input.dataset[name]));
  }
  for (const choice of all("[data-panel]")) {
    const chart = charts.find((each) => each.dataset.side === choice.dataset.panel);
    choice.addEventListener("change", () => {
      chart.dataset.values = choice.value;
      if (drawn.has(chart)) draw(chart);
    });
    choice.value = chart.dataset.values;
  }
  label();
  addEventListener("DOMContentLoaded", () => {
    const near = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting && !drawn.has(target)) { near.unobserve(target); draw(target); }
      }
    }, { rootMargin: "300px" });
    for (const chart of charts) near.observe(chart);
  });
  addEventListener("beforeprint", () => {
    for (const each of all("details")) each.open = true;
    for (const chart of charts) if (!drawn.has(chart)) draw(chart);
  });
})();
