
// Charts: what is pointed at, or reached by the arrow keys, is said beside it.
const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
const inside = (value, count) => Math.max(0, Math.min(count - 1, value));
const nearest = (places, x) =>
  places.reduce((best, place, i) => (Math.abs(place - x) < Math.abs(places[best] - x) ? i : best), 0);
const unitsAt = (svg, event) => {
  const { left, top, width, height } = svg.getBoundingClientRect();
  const box = svg.viewBox.baseVal;
  return [(event.clientX - left) / width * box.width, (event.clientY - top) / height * box.height];
};
const windowAt = (svg, x, y) => {
  const { left, top, width, height } = svg.getBoundingClientRect();
  const box = svg.viewBox.baseVal;
  return [left + x / box.width * width, top + y / box.height * height];
};

// Curves: the numbers are those of the data table below the chart.
for (const svg of all("svg[data-lines]")) {
  const places = JSON.parse(svg.dataset.places);
  const table = document.getElementById(svg.dataset.lines);
  const across = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent);
  const down = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
  const turned = table.classList.contains("turned"); // a row for each curve, not for each epoch
  const names = turned ? down.map((cells) => cells[0]) : across;
  const epochs = turned ? across : down.map((cells) => cells[0]);
  const valueAt = (n, i) => (turned ? down[n][i + 1] : down[i][n + 1]);
  const group = svg.closest("[data-group]").dataset.group;
  const cursor = svg.querySelector(".cursor");
  let place = -1;
  const show = (i, left, top) => {
    place = i;
    cursor.setAttribute("x1", places[i]);
    cursor.setAttribute("x2", places[i]);
    cursor.classList.add("on");
    const known = names.map((name, n) => [name, valueAt(n, i), n]);
    const shown = known.filter(([, value, n]) => value !== "-" && isOn(group, n));
    const lines = [`epoch ${epochs[i]}`, ...shown.map(([name, value]) => `${name}: ${value}`)];
    showTip(lines, left, top);
    return lines;
  };
  const hide = () => { cursor.classList.remove("on"); hideTip(); };
  svg.addEventListener("pointermove", (event) =>
    show(nearest(places, unitsAt(svg, event)[0]), event.clientX, event.clientY));
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const next = place < 0 ? 0 : inside(place + step[0] + step[1], places.length);
    say(show(next, ...windowAt(svg, places[next], 60)).join(", "));
  });
}

// Points: the same test image is marked on both sides, and its picture shown.
for (const store of all("script[id^=features-]")) {
  const key = store.id;
  const data = values(key);
  const sides = all(`svg[data-points="${key}"]`);
  const order = data.truth.map((_, i) => i).sort((a, b) => data.truth[a] - data.truth[b] || a - b);
  const sheet = document.getElementById(`sheet-${key}`);
  const canvas = document.querySelector(`[data-canvas="${key}"]`);
  const words = document.querySelector(`[data-said="${key}"]`);
  let chosen = -1;
  const picture = (i) => {
    const at = data.picture[i];
    canvas.hidden = !sheet || at < 0;
    if (canvas.hidden) return;
    const [across, width, height] = ["across", "width", "height"].map((name) => Number(sheet.dataset[name]));
    const pen = canvas.getContext("2d");
    pen.imageSmoothingEnabled = false;
    pen.drawImage(sheet, (at % across) * width, Math.floor(at / across) * height, width, height, 0, 0, 120, 120);
  };
  const choose = (i) => {
    chosen = i;
    for (const svg of sides) {
      const ring = svg.querySelector(".ring");
      ring.setAttribute("cx", data.x[svg.dataset.side][i]);
      ring.setAttribute("cy", data.y[svg.dataset.side][i]);
    }
    picture(i);
    const named = (guess) => (guess < 0 ? "unknown" : data.names[guess] ?? `class ${guess}`);
    const [before, after] = data.guesses.map((each) => named(each[i]));
    words.textContent = `Image ${data.rows[i]}: ${named(data.truth[i])}; predicted ${before} before, ${after} after`;
  };
  for (const svg of sides) {
    const [xs, ys] = [data.x[svg.dataset.side], data.y[svg.dataset.side]];
    svg.addEventListener("pointermove", (event) => {
      const [x, y] = unitsAt(svg, event);
      let best = -1, least = 400;
      for (let i = 0; i < xs.length; i++) {
        const far = (xs[i] - x) ** 2 + (ys[i] - y) ** 2;
        if (far < least && isOn(key, data.truth[i])) [best, least] = [i, far];
      }
      if (best >= 0 && best !== chosen) choose(best);
    });
    svg.addEventListener("keydown", (event) => {
      const step = steps[event.key];
      if (!step) return;
      event.preventDefault();
      const shown = order.filter((i) => isOn(key, data.truth[i]));
      const at = shown.indexOf(chosen);
      let next = at < 0 ? 0 : inside(at + step[0], shown.length);
      if (at >= 0 && step[1]) { // another class
        const classes = [...new Set(shown.map((i) => data.truth[i]))];
        const wanted = classes[inside(classes.indexOf(data.truth[chosen]) + step[1], classes.length)];
        next = shown.findIndex((i) => data.truth[i] === wanted);
      }
      if (shown.length) { choose(shown[next]); say(words.textContent); }
    });
  }
}
