// What every page does in the browser: times in the viewer's zone, the theme, and parts that stay up to date.
import { follow } from "./live.js";
import { localise, zone } from "./times.js";

localise(document);
document.getElementById("zone").textContent = zone();

const button = document.getElementById("theme");
if (button) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try {
      localStorage.setItem("stepd-theme", root.dataset.theme);
    } catch {
      // It holds until the page is left.
    }
  });
}

for (const part of document.querySelectorAll("[data-live]")) follow(part);
