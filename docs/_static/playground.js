// The playground: unit features on the circle or the sphere, OPL with its gradient, and gradient descent.
"use strict";
(() => {
  // ---- the loss: features are arrays of D numbers; the gradient is that of the loss at each feature ----
  const dot = (a, b) => a.reduce((sum, value, k) => sum + value * b[k], 0);
  const norm = (a) => Math.sqrt(dot(a, a));
  const scale = (a, factor) => a.map((value) => value * factor);
  const unit = (a) => (norm(a) > 0 ? scale(a, 1 / norm(a)) : a.map(() => 0));

  // Weight of a pair's cosine in the derivative of d; `total` is the signed sum over all pairs.
  const SLOPES = {
    mean_abs: (cosine) => Math.sign(cosine),
    abs_mean: (cosine, total) => Math.sign(total),
    mean: () => 1,
    squared: (cosine) => 2 * cosine,
  };
  const VALUES = { mean_abs: Math.abs, abs_mean: (cosine) => cosine, mean: (cosine) => cosine, squared: (cosine) => cosine * cosine };

  function projection(features, labels, gamma = 0.5, form = "mean_abs") {
    const units = features.map(unit), count = features.length;
    let same = 0, other = 0, signed = 0, samePairs = 0, otherPairs = 0;
    const cosines = units.map((u) => units.map((v) => dot(u, v)));
    for (let i = 0; i < count; i++) {
      for (let j = 0; j < count; j++) {
        if (i === j) continue;
        if (labels[i] === labels[j]) { same += cosines[i][j]; samePairs++; }
        else { other += VALUES[form](cosines[i][j]); signed += cosines[i][j]; otherPairs++; }
      }
    }
    const s = samePairs ? same / samePairs : 0;
    let d = otherPairs ? other / otherPairs : 0;
    if (form === "abs_mean") d = Math.abs(d);
    const gradients = units.map((u, i) => {
      const pull = u.map(() => 0);
      units.forEach((v, j) => {
        if (i === j) return;
        const weight = labels[i] === labels[j] ? -2 / samePairs : (2 * gamma * SLOPES[form](cosines[i][j], signed)) / otherPairs;
        for (let k = 0; k < v.length; k++) pull[k] += weight * v[k];
      });
      const along = dot(pull, u), length = norm(features[i]);
      return length > 0 ? pull.map((value, k) => (value - along * u[k]) / length) : pull.map(() => 0);
    });
    return { loss: 1 - s + gamma * d, s, d, gradients };
  }

  // ---- arrangements ----
  let state = 12345;  // of the random numbers, so that a page always starts in the same way
  const random = () => { state = (1664525 * state + 1013904223) % 4294967296; return state / 4294967296; };
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const around = (center, spread) => unit(center.map((value) => value + spread * normal()));
  const axis = (label, dim) => Array.from({ length: dim }, (_, k) => (k === label % dim ? 1 : 0));

  function arrange(preset, dim, classes, count) {
    if (preset === "two") classes = 2;
    if (preset === "crowded") classes = dim + 2;
    const labels = Array.from({ length: classes * count }, (_, index) => Math.floor(index / count));
    const centers = Array.from({ length: classes }, (_, label) => {
      if (preset === "star") return axis(label, dim);
      if (preset === "two") return label ? unit([Math.SQRT1_2, Math.SQRT1_2, 0].slice(0, dim)) : axis(0, dim);
      return unit(Array.from({ length: dim }, normal));
    });
    const spread = { star: 0.08, collapse: 0.06, two: 0.15, crowded: 0.3, random: 0.45 }[preset];
    const one = unit(Array.from({ length: dim }, (_, k) => 1 + 0.2 * k));
    const points = labels.map((label) => around(preset === "collapse" ? one : centers[label], spread));
    return { points, labels, classes };
  }

  // ---- the page ----
  const root = document.getElementById("playground");
  if (!root) return;
  const $ = (id) => document.getElementById(`pg-${id}`);
  const COLORS = ["#0072b2", "#d55e00", "#009e73", "#b0489b", "#8a6d00", "#555fcf"];
  const SHAPES = [
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z", "M-.9-.9h1.8v1.8h-1.8z", "M0-1.2L1.1.8h-2.2z", "M0-1.25L1.25 0 0 1.25-1.25 0z",
    "M-.4-1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7z", "M0 1.2L1.1-.8h-2.2z",
  ];
  const NAMES = "ABCDEF";
  const LONGEST = 2000;  // steps of the history
  const make = (name, attributes, parent) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };

  let points = [], labels = [], history = [], now = 0, selected = 0, running = false, age = 0;
  let turn = { longitude: 0.6, latitude: 0.35 }, marks = [], drag = null;
  const plot = $("plot"), chart = $("chart");
  const dim = () => points[0]?.length ?? Number($("space").value);

  function view(point) {  // to the screen: x to the right, y down, and depth towards the reader
    if (point.length === 2) return [point[0], -point[1], 1];
    const [x, y, z] = point, { longitude, latitude } = turn;
    const across = -x * Math.sin(longitude) + y * Math.cos(longitude);
    const toward = x * Math.cos(longitude) + y * Math.sin(longitude);
    return [across, -(z * Math.cos(latitude) - toward * Math.sin(latitude)), toward * Math.cos(latitude) + z * Math.sin(latitude)];
  }
  function unview(x, y, before) {  // the point of the circle or of the sphere's near side (or far side, if it was there)
    if (before.length === 2) return unit([x, -y]);
    const { longitude, latitude } = turn, radius = Math.hypot(x, y);
    const [across, up] = radius > 1 ? [x / radius, -y / radius] : [x, -y];
    const depth = Math.sqrt(Math.max(0, 1 - across * across - up * up)) * (view(before)[2] < 0 ? -1 : 1);
    const toward = depth * Math.cos(latitude) - up * Math.sin(latitude);
    const z = depth * Math.sin(latitude) + up * Math.cos(latitude);
    return unit([toward * Math.cos(longitude) - across * Math.sin(longitude), toward * Math.sin(longitude) + across * Math.cos(longitude), z]);
  }

  function build() {  // one mark and one arrow per point, and the outline
    plot.replaceChildren();
    make("circle", { r: 1, class: "pg-outline" }, plot);
    for (const [label, end] of [["1", [1.14, 0]], ["2", [0, 1.14]], ["3", [0, 0, 1.14]]].slice(0, dim())) {
      const direction = [...end, 0, 0].slice(0, dim());
      make("line", { class: "pg-axis" }, plot).point = direction;
      const text = make("text", { class: "pg-axis-name" }, plot);
      text.textContent = label;
      text.point = direction;
    }
    marks = points.map((_, index) => {
      const color = COLORS[labels[index] % COLORS.length];
      const arrow = make("path", { class: "pg-arrow", stroke: color }, plot);
      const mark = make("path", { d: SHAPES[labels[index] % SHAPES.length], fill: color, class: "pg-point" }, plot);
      mark.dataset.index = index;
      return { arrow, mark };
    });
  }

  function draw() {
    const gamma = Number($("gamma").value), result = projection(points, labels, gamma, $("form").value);
    for (const node of plot.querySelectorAll(".pg-axis, .pg-axis-name")) {
      const [x, y, depth] = view(node.point);
      if (node.tagName === "line") { node.setAttribute("x2", x / 1.14); node.setAttribute("y2", y / 1.14); }
      else { node.setAttribute("x", x); node.setAttribute("y", y + 0.03); }
      node.setAttribute("opacity", depth < 0 ? 0.4 : 1);
    }
    const largest = Math.max(...result.gradients.map(norm), 1e-12), length = 0.32 * Math.min(1, largest * points.length * 2);
    points.forEach((point, index) => {
      const [x, y, depth] = view(point), { arrow, mark } = marks[index];
      const size = index === selected ? 0.055 : 0.038;
      mark.setAttribute("transform", `translate(${x} ${y}) scale(${size})`);
      mark.setAttribute("opacity", depth < 0 ? 0.35 : 1);
      mark.classList.toggle("pg-selected", index === selected);
      const end = point.map((value, k) => value - (result.gradients[index][k] / largest) * length);
      const [x2, y2] = view(end), far = Math.hypot(x2 - x, y2 - y);
      const visible = $("arrows").checked && far > 0.004;
      const head = Math.min(0.04, far / 2), angle = Math.atan2(y2 - y, x2 - x);
      const side = (sign) => `${x2 - head * Math.cos(angle + sign * 0.5)} ${y2 - head * Math.sin(angle + sign * 0.5)}`;
      arrow.setAttribute("d", visible ? `M${x} ${y}L${x2} ${y2}M${side(1)}L${x2} ${y2}L${side(-1)}` : "");
      arrow.setAttribute("opacity", depth < 0 ? 0.35 : 0.9);
    });
    for (const [name, value] of [["s", result.s], ["d", result.d], ["loss", result.loss], ["largest", largest]]) $(name).textContent = value.toFixed(4);
    $("gamma-value").textContent = gamma.toFixed(2);
    return result;
  }

  function drawChart() {
    chart.replaceChildren();
    const shown = history.slice(0, now + 1), top = Math.max(1, ...shown.map((entry) => entry.loss)), low = Math.min(0, ...shown.map((entry) => Math.min(entry.s, entry.d, entry.loss)));
    const x = (index) => 28 + (264 * index) / Math.max(1, shown.length - 1), y = (value) => 140 - (130 * (value - low)) / (top - low);
    for (const value of low < 0 ? [low, 0, top] : [0, top]) {
      make("line", { x1: 28, x2: 292, y1: y(value), y2: y(value), class: "pg-grid" }, chart);
      make("text", { x: 24, y: y(value) + 4, class: "pg-tick" }, chart).textContent = value.toFixed(1);
    }
    for (const name of ["s", "d", "loss"]) {
      const line = shown.map((entry, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(entry[name]).toFixed(1)}`).join("");
      make("path", { d: line || "M0 0", class: `pg-curve pg-curve-${name}` }, chart);
    }
  }

  function remember() {  // the present points become the last entry of the history
    const { s, d, loss } = draw();
    history = history.slice(0, now + 1);
    history.push({ points: points.map((point) => [...point]), s, d, loss });
    if (history.length > LONGEST) history.shift();
    now = history.length - 1;
    $("history").max = $("history").value = now;
    $("history-value").textContent = now;
    drawChart();
  }

  function step() {  // every point moves against its gradient, and back to length 1; steps shrink, since |cos| has a kink
    const rate = 0.4 / (1 + 0.05 * age++);
    const { gradients } = projection(points, labels, Number($("gamma").value), $("form").value);
    points = points.map((point, index) => unit(point.map((value, k) => value - rate * points.length * 0.25 * gradients[index][k])));
  }

  function set(given, givenLabels) {
    points = given.map(unit);
    labels = givenLabels;
    history = [];
    now = -1;
    selected = age = 0;
    build();
    remember();
  }

  function say() {
    const at = points[selected].map((value) => value.toFixed(2)).join(", ");
    $("said").textContent = `Point ${selected + 1} of ${points.length}, class ${NAMES[labels[selected]]}, at ${at}. s ${$("s").textContent}, d ${$("d").textContent}, loss ${$("loss").textContent}.`;
  }

  function apply() {
    stop();
    leavePath();
    const clamp = (id) => { const box = $(id); box.value = Math.min(box.max, Math.max(box.min, Math.round(Number(box.value)) || 1)); return Number(box.value); };
    const made = arrange($("preset").value, Number($("space").value), clamp("classes"), clamp("count"));
    $("classes").value = made.classes;
    set(made.points, made.labels);
  }

  function stop() { running = false; $("run").textContent = "Descend"; $("run").setAttribute("aria-pressed", "false"); }
  function loop() {
    if (!running) return;
    step();
    remember();
    requestAnimationFrame(loop);
  }
  $("run").addEventListener("click", () => {
    if (running) return stop();
    leavePath();
    running = true;
    $("run").textContent = "Stop";
    $("run").setAttribute("aria-pressed", "true");
    requestAnimationFrame(loop);
  });
  $("step").addEventListener("click", () => { stop(); leavePath(); step(); remember(); say(); });
  $("apply").addEventListener("click", apply);
  for (const id of ["preset", "space", "classes", "count"]) $(id).addEventListener("change", apply);
  for (const id of ["gamma", "form", "arrows"]) $(id).addEventListener("input", () => { age = 0; draw(); });
  $("history").addEventListener("input", () => {
    stop();
    now = Number($("history").value);
    points = history[now].points.map((point) => [...point]);
    $("history-value").textContent = now;
    draw();
    drawChart();
  });

  // ---- mouse, touch and keyboard ----
  const place = (event) => {
    const box = plot.getBoundingClientRect(), size = Math.min(box.width, box.height);
    return [((event.clientX - box.left - box.width / 2) / size) * 2.5, ((event.clientY - box.top - box.height / 2) / size) * 2.5];
  };
  plot.addEventListener("pointerdown", (event) => {
    const [x, y] = place(event);
    const near = points.map((point, index) => ({ index, at: view(point) })).map(({ index, at }) => ({ index, far: Math.hypot(at[0] - x, at[1] - y) + (at[2] < 0 ? 0.05 : 0) }));
    const best = near.reduce((a, b) => (b.far < a.far ? b : a));
    drag = best.far < 0.12 ? { index: best.index } : { from: [x, y] };
    if (drag.index !== undefined) { stop(); leavePath(); selected = drag.index; draw(); }
    plot.setPointerCapture(event.pointerId);
    event.preventDefault();
    plot.focus();
  });
  plot.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y] = place(event);
    if (drag.index !== undefined) points[drag.index] = unview(x, y, points[drag.index]);
    else if (dim() === 3) {
      rotate(-(x - drag.from[0]), y - drag.from[1]);
      drag.from = [x, y];
    }
    draw();
  });
  const release = () => {
    age = 0;
    if (drag?.index !== undefined) { remember(); say(); }
    drag = null;
  };
  plot.addEventListener("pointerup", release);
  plot.addEventListener("pointercancel", release);
  function rotate(longitude, latitude) {
    turn = { longitude: turn.longitude + longitude, latitude: Math.max(-1.5, Math.min(1.5, turn.latitude + latitude)) };
  }
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  plot.addEventListener("keydown", (event) => {
    const key = event.key.toLowerCase();
    if (key === "n" || key === "p") selected = (selected + (key === "n" ? 1 : points.length - 1)) % points.length;
    else if (ARROWS[event.key]) {
      const [across, up] = ARROWS[event.key];
      if (event.shiftKey) rotate(-0.1 * across, 0.1 * up);
      else {
        stop();
        leavePath();
        age = 0;
        points[selected] = move(points[selected], 0.05 * across, 0.05 * up);
        remember();
      }
    } else return;
    event.preventDefault();
    draw();
    say();
  });
  function move(point, across, up) {  // right and up turn a point of the circle counterclockwise
    if (point.length === 2) {
      const angle = Math.atan2(point[1], point[0]) + across + up;
      return [Math.cos(angle), Math.sin(angle)];
    }
    const longitude = Math.atan2(point[1], point[0]) + across;
    const latitude = Math.max(-1.56, Math.min(1.56, Math.asin(Math.max(-1, Math.min(1, point[2]))) + up));
    return [Math.cos(latitude) * Math.cos(longitude), Math.cos(latitude) * Math.sin(longitude), Math.sin(latitude)];
  }

  // ---- a real training: the test features after every epoch ----
  const paths = window.OPL_PATHS ?? { runs: [] };
  paths.runs.forEach((run, index) => $("path").append(new Option(run.name, index)));
  function leavePath() {
    $("path").value = "";
    $("epoch").disabled = true;
  }
  function showEpoch() {
    const run = paths.runs[Number($("path").value)], epoch = Number($("epoch").value);
    points = run.epochs[epoch].map(unit);
    now = epoch;
    $("epoch-value").textContent = epoch;
    draw();
    drawChart();
  }
  $("path").addEventListener("change", () => {
    stop();
    if ($("path").value === "") return apply();
    const run = paths.runs[Number($("path").value)];
    $("space").value = run.epochs[0][0].length;
    $("gamma").value = run.gamma;
    $("form").value = "mean_abs";
    set(run.epochs[0], run.labels);
    history = run.epochs.map((epoch) => {
      const { s, d, loss } = projection(epoch, run.labels, run.gamma);
      return { points: epoch.map(unit), s, d, loss };
    });
    $("history").max = $("epoch").max = history.length - 1;
    $("epoch").disabled = false;
    $("epoch").value = 0;
    showEpoch();
  });
  $("epoch").addEventListener("input", showEpoch);

  apply();
  window.playground = { projection, set, step, remember, draw, points: () => points, labels: () => labels };
})();
