// The script of the page, wrapped in one strict function.
const root = document.documentElement;
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const values = (id) => JSON.parse(document.getElementById(id).textContent);
const say = (text) => { document.getElementById("status").textContent = text; }; // read aloud by screen readers

// Theme: the system's until the button is pressed.
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
const remembered = () => { try { return localStorage.getItem("opl-theme"); } catch { return null; } };
const remember = (name) => { try { localStorage.setItem("opl-theme", name); } catch { /* not allowed for this file */ } };
const button = document.getElementById("theme");
const label = () => {
  const opposite = isDark() ? "Light" : "Dark";
  button.textContent = opposite;
  button.setAttribute("aria-label", `${opposite} theme`);
};
const setTheme = (name) => { root.dataset.theme = name; label(); };
if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
button.addEventListener("click", () => {
  const name = isDark() ? "light" : "dark";
  remember(name);
  setTheme(name);
  say(`${name} theme`);
});
system.addEventListener("change", label);

// Copying: by the clipboard API, or by a selected text area where a page from a file may not use it.
const copySelection = (text) => {
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
  try { await navigator.clipboard.writeText(text); return true; } catch { return copySelection(text); }
};
for (const copyButton of all("[data-copy]")) {
  const title = copyButton.textContent;
  const source = document.getElementById(copyButton.dataset.copy);
  copyButton.addEventListener("click", async () => {
    const done = await copy(source.textContent);
    copyButton.textContent = done ? "Copied" : "Select and copy manually";
    copyButton.classList.toggle("copied", done);
    if (!done) source.hidden = false;
    say(done ? "Copied to the clipboard" : "Copying is not allowed here: copy the text shown below");
    copyButton.focus();
    setTimeout(() => { copyButton.textContent = title; copyButton.classList.remove("copied"); }, 2000);
  });
}

// Parts are folded on a phone, so that their headings are within reach; a link to a part opens it.
const phone = matchMedia("screen and (max-width: 46rem)");
const fold = () => { for (const part of all("details.part")) part.open = !phone.matches; };
const open = (hash) => {
  const target = hash && document.getElementById(hash.slice(1));
  const part = target && (target.matches("details.part") ? target : target.querySelector(":scope > details.part"));
  if (part) part.open = true;
};
fold();
open(location.hash);
phone.addEventListener("change", fold);
addEventListener("hashchange", () => open(location.hash));
for (const link of all('a[href^="#"]')) link.addEventListener("click", () => open(link.hash));

// The link of the section in view.
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
for (const id of links.keys()) spy.observe(document.getElementById(id));

// A tooltip next to the pointer, inside the window.
const tip = document.getElementById("tip");
const hideTip = () => { tip.hidden = true; };
const showTip = (lines, left, top) => {
  tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(left + 14, innerWidth - width - 4))}px`;
  tip.style.top = `${top + 18 + height < innerHeight ? top + 18 : Math.max(4, top - height - 10)}px`;
};
addEventListener("scroll", hideTip, { passive: true });
addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

// Terms of the glossary, explained where they are used.
for (const term of all(".term")) {
  const meaning = document.getElementById(term.getAttribute("aria-describedby")).textContent;
  const show = () => {
    const { left, bottom } = term.getBoundingClientRect();
    showTip([`${term.textContent}: ${meaning}`], left - 14, bottom - 12);
  };
  for (const name of ["pointerenter", "focus"]) term.addEventListener(name, show);
  for (const name of ["pointerleave", "blur"]) term.addEventListener(name, hideTip);
}
label();
addEventListener("beforeprint", () => {
  for (const details of all("details:not(.data)")) details.open = true;
});

// Tables: pressing a heading sorts by its column, pressing it again reverses the order.
const valueOf = (row, column) => row.cells[column].textContent.trim();
const numberOf = (text) => Number.parseFloat(text.replace(/,/g, "").replace("−", "-"));
const sortBy = (table, column, down) => {
  const bodies = [...table.tBodies].map((body) => [body, [...body.rows].filter((row) => !row.matches(".group"))]);
  const rows = bodies.flatMap(([, inside]) => inside);
  const known = rows.map((row) => valueOf(row, column)).filter((text) => text !== "-" && text !== "");
  const numeric = known.length > 0 && known.every((text) => !Number.isNaN(numberOf(text)));
  const sign = down ? -1 : 1;
  const compare = (first, second) => {
    const [a, b] = [first, second].map((row) => valueOf(row, column));
    if (!numeric) return sign * a.localeCompare(b);
    const [x, y] = [numberOf(a), numberOf(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y); // missing values come last
    return sign * (x - y);
  };
  for (const [body, inside] of bodies) body.append(...inside.sort(compare)); // groups stay together
};
for (const sortButton of all("th .sort")) {
  const heading = sortButton.closest("th");
  sortButton.addEventListener("click", () => {
    const table = heading.closest("table");
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const sorted of all("[aria-sort]", table)) sorted.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    sortBy(table, heading.cellIndex, down);
    say(`sorted by ${sortButton.textContent}, ${down ? "descending" : "ascending"}`);
  });
}

// Menus: the comparison that the parts show.
for (const menu of all("[data-compare]")) {
  menu.addEventListener("change", () => {
    for (const twin of all(`[data-compare="${menu.dataset.compare}"]`)) {
      if ([...twin.options].some((option) => option.value === menu.value)) twin.value = menu.value;
    }
    const boxes = all(`[data-of="${menu.dataset.compare}"]`);
    for (const part of new Set(boxes.map((box) => box.parentElement))) {
      const inPart = boxes.filter((box) => box.parentElement === part);
      if (!inPart.some((box) => box.dataset.pair === menu.value)) continue; // this part has no such comparison
      for (const box of inPart) box.hidden = box.dataset.pair !== menu.value;
    }
  });
}

// Legends: a check box hides a line or a class in all charts of its group.
const isOn = (group, series) =>
  document.querySelector(`[data-filter="${group}"][data-series="${series}"]`)?.checked ?? true;
const filter = (group) => {
  for (const box of all(`[data-filter="${group}"]`)) {
    for (const mark of all(`[data-group="${group}"] [data-series="${box.dataset.series}"]`)) {
      mark.classList.toggle("off", !box.checked);
    }
  }
};
for (const box of all("[data-filter]")) box.addEventListener("change", () => filter(box.dataset.filter));
for (const allButton of all("[data-all]")) {
  allButton.addEventListener("click", () => {
    for (const box of all(`[data-filter="${allButton.dataset.all}"]`)) box.checked = allButton.dataset.on === "true";
    filter(allButton.dataset.all);
  });
}

// Charts: pointing at a value, or reaching it with the arrow keys, shows it in a tooltip.
const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
const inside = (value, count) => Math.max(0, Math.min(count - 1, value));
const nearest = (positions, x) =>
  positions.reduce((best, position, i) => (Math.abs(position - x) < Math.abs(positions[best] - x) ? i : best), 0);
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

// Curves: the values come from the data table below the chart.
for (const svg of all("svg[data-lines]")) {
  const positions = JSON.parse(svg.dataset.positions);
  const table = document.getElementById(svg.dataset.lines);
  const across = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent);
  const down = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
  const turned = table.classList.contains("turned"); // one row per curve, not per epoch
  const names = turned ? down.map((cells) => cells[0]) : across;
  const epochs = turned ? across : down.map((cells) => cells[0]);
  const valueAt = (n, i) => (turned ? down[n][i + 1] : down[i][n + 1]);
  const group = svg.closest("[data-group]").dataset.group;
  const cursor = svg.querySelector(".cursor");
  let current = -1;
  const show = (i, left, top) => {
    current = i;
    cursor.setAttribute("x1", positions[i]);
    cursor.setAttribute("x2", positions[i]);
    cursor.classList.add("on");
    const known = names.map((name, n) => [name, valueAt(n, i), n]);
    const shown = known.filter(([, value, n]) => value !== "-" && isOn(group, n));
    const lines = [`epoch ${epochs[i]}`, ...shown.map(([name, value]) => `${name}: ${value}`)];
    showTip(lines, left, top);
    return lines;
  };
  const hide = () => { cursor.classList.remove("on"); hideTip(); };
  svg.addEventListener("pointermove", (event) =>
    show(nearest(positions, unitsAt(svg, event)[0]), event.clientX, event.clientY));
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const next = current < 0 ? 0 : inside(current + step[0] + step[1], positions.length);
    say(show(next, ...windowAt(svg, positions[next], 60)).join(", "));
  });
}

// Points: the test image pointed at is marked on both sides, and its picture is shown.
for (const store of all("script[id^=features-]")) {
  const key = store.id;
  const data = values(key);
  const sides = all(`svg[data-points="${key}"]`);
  const order = data.truth.map((_, i) => i).sort((a, b) => data.truth[a] - data.truth[b] || a - b);
  const sheet = document.getElementById(`sheet-${key}`);
  const canvas = document.querySelector(`[data-canvas="${key}"]`);
  const description = document.querySelector(`[data-description="${key}"]`);
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
    const nameOf = (index) => (index < 0 ? "unknown" : data.names[index] ?? `class ${index}`);
    const [before, after] = data.predictions.map((predicted) => nameOf(predicted[i]));
    description.textContent = `Image ${data.rows[i]}: ${nameOf(data.truth[i])}; predicted ${before} before, ${after} after`;
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
      if (shown.length) { choose(shown[next]); say(description.textContent); }
    });
  }
}

// Matrices: the cell pointed at is marked in all three; a tooltip has both classes and all values.
const grouped = new Map();
for (const box of all("[data-matrix]")) {
  if (!grouped.has(box.dataset.matrix)) grouped.set(box.dataset.matrix, []);
  grouped.get(box.dataset.matrix).push(box);
}
for (const [key, boxes] of grouped) {
  const data = values(key);
  const count = data.names.length;
  let order = data.orders[0];
  let current = null;
  const at = (cells, i, j) => (i >= j ? cells[i][j] : cells[j][i]) / 1000;
  const show = (row, column, left, top) => {
    current = [row, column];
    for (const box of boxes) {
      const mark = box.querySelector(".cell");
      mark.hidden = false;
      mark.style.cssText = `left:${100 * column / count}%;top:${100 * row / count}%;width:${100 / count}%;height:${100 / count}%`;
    }
    const [i, j] = [order[row], order[column]];
    const [before, after] = data.cells.map((cells) => at(cells, i, j));
    const change = Math.abs(after) - Math.abs(before);
    const lines = [
      `${data.names[i]} · ${data.names[j]}`,
      `${before.toFixed(3)} → ${after.toFixed(3)}`,
      `change of |cos| ${change < 0 ? "" : "+"}${change.toFixed(3)}`,
    ];
    showTip(lines, left, top);
    return lines;
  };
  const hide = () => {
    for (const box of boxes) box.querySelector(".cell").hidden = true;
    hideTip();
  };
  for (const box of boxes) {
    box.addEventListener("pointermove", (event) => {
      const { left, top, width, height } = box.getBoundingClientRect();
      const cell = (value, size) => inside(Math.floor(value / size * count), count);
      show(cell(event.clientY - top, height), cell(event.clientX - left, width), event.clientX, event.clientY);
    });
    box.addEventListener("pointerleave", hide);
    box.addEventListener("blur", hide);
    box.addEventListener("keydown", (event) => {
      const step = steps[event.key];
      if (!step) return;
      event.preventDefault();
      const next = current ? [inside(current[0] + step[1], count), inside(current[1] + step[0], count)] : [0, 0];
      const { left, top, width, height } = box.getBoundingClientRect();
      const [row, column] = next;
      say(show(row, column, left + (column + 0.5) * width / count, top + (row + 0.5) * height / count).join(", "));
    });
  }
  for (const input of all(`[data-order="${key}"]`)) {
    input.addEventListener("change", () => {
      order = data.orders[input.value];
      const listed = document.querySelector(`[data-names="${key}"]`);
      if (listed) listed.textContent = order.map((i) => data.names[i]).join(", ");
      for (const image of boxes.flatMap((box) => all("img", box))) image.hidden = image.dataset.index !== input.value;
    });
  }
}
