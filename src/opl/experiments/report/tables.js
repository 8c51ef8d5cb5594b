
// Tables: a heading that is pressed sorts by its column, pressed again the other way.
const valueOf = (row, column) => row.cells[column].textContent.trim();
const numberOf = (text) => Number.parseFloat(text.replace(/,/g, "").replace("−", "-"));
const sortBy = (table, column, down) => {
  const rows = [...table.tBodies[0].rows];
  const known = rows.map((row) => valueOf(row, column)).filter((text) => text !== "-" && text !== "");
  const numeric = known.length > 0 && known.every((text) => !Number.isNaN(numberOf(text)));
  const sign = down ? -1 : 1;
  const compare = (one, other) => {
    const [a, b] = [one, other].map((row) => valueOf(row, column));
    if (!numeric) return sign * a.localeCompare(b);
    const [x, y] = [numberOf(a), numberOf(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y); // what is missing comes last
    return sign * (x - y);
  };
  table.tBodies[0].append(...rows.sort(compare));
};
for (const button of all("th .sort")) {
  const heading = button.closest("th");
  button.addEventListener("click", () => {
    const table = heading.closest("table");
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of all("[aria-sort]", table)) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    sortBy(table, heading.cellIndex, down);
    say(`sorted by ${button.textContent}, ${down ? "falling" : "rising"}`);
  });
}

// Menus and switches: which comparison is looked at closely, and the order of classes.
for (const menu of all("[data-compare]")) {
  menu.addEventListener("change", () => {
    for (const other of all(`[data-compare="${menu.dataset.compare}"]`)) {
      if ([...other.options].some((option) => option.value === menu.value)) other.value = menu.value;
    }
    const boxes = all(`[data-of="${menu.dataset.compare}"]`);
    for (const part of new Set(boxes.map((box) => box.parentElement))) {
      const own = boxes.filter((box) => box.parentElement === part);
      if (!own.some((box) => box.dataset.pair === menu.value)) continue; // this part has no such comparison
      for (const box of own) box.hidden = box.dataset.pair !== menu.value;
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
for (const button of all("[data-all]")) {
  button.addEventListener("click", () => {
    for (const box of all(`[data-filter="${button.dataset.all}"]`)) box.checked = button.dataset.on === "true";
    filter(button.dataset.all);
  });
}
