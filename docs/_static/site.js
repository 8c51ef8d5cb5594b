// A heading of the board sorts its column; a second press reverses the order.
"use strict";
for (const table of document.querySelectorAll("table.board")) {
  const heads = [...table.querySelectorAll("thead th")];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") !== "descending" && column > 0;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const sign = descending ? -1 : 1;
      const key = (row) => row.cells[column].dataset.value;
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        if (column === 0) return sign * a.cells[0].textContent.localeCompare(b.cells[0].textContent);
        if (key(a) === undefined || key(b) === undefined) return (key(a) === undefined) - (key(b) === undefined);
        return sign * (Number(key(a)) - Number(key(b)));
      });
      table.tBodies[0].append(...rows);
    });
  });
}
