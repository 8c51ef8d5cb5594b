// What the page does beyond being read. All scripts of the page are one function; this one comes first.
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
const setTheme = (name) => { root.dataset.theme = name; label(); };
if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
button.addEventListener("click", () => {
  const name = isDark() ? "light" : "dark";
  remember(name);
  setTheme(name);
  say(`${name} theme`);
});
system.addEventListener("change", label);

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
for (const id of links.keys()) spy.observe(document.getElementById(id));

// A sentence beside what is pointed at, inside the window.
const tip = document.getElementById("tip");
const hideTip = () => { tip.hidden = true; };
const showTip = (lines, left, top) => {
  tip.replaceChildren(...lines.map((words) => Object.assign(document.createElement("div"), { textContent: words })));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(left + 14, innerWidth - width - 4))}px`;
  tip.style.top = `${top + 18 + height < innerHeight ? top + 18 : Math.max(4, top - height - 10)}px`;
};
addEventListener("scroll", hideTip, { passive: true });
addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

// Words that are explained where they stand.
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
  for (const each of all("details:not(.data)")) each.open = true;
});
