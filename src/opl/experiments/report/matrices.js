
// Matrices: the cell pointed at is marked in all three, with both classes and all values.
const grouped = new Map();
for (const box of all("[data-matrix]")) {
  if (!grouped.has(box.dataset.matrix)) grouped.set(box.dataset.matrix, []);
  grouped.get(box.dataset.matrix).push(box);
}
for (const [key, boxes] of grouped) {
  const data = values(key);
  const count = data.names.length;
  let order = data.orders[0];
  let place = null;
  const at = (cells, i, j) => (i >= j ? cells[i][j] : cells[j][i]) / 1000;
  const show = (row, column, left, top) => {
    place = [row, column];
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
      const next = place ? [inside(place[0] + step[1], count), inside(place[1] + step[0], count)] : [0, 0];
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
      for (const image of boxes.flatMap((box) => all("img", box))) image.hidden = image.dataset.place !== input.value;
    });
  }
}
