// Applies the theme that was chosen on this machine before anything is drawn.
try {
  const chosen = localStorage.getItem("stepd-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing goes by its own setting.
}
