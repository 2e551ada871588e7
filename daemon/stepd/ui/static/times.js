// Writes times in the viewer's zone; the time as the daemon gave it stays in `datetime` and in the title.
const shown = new Intl.DateTimeFormat("sv-SE", {
  year: "numeric", month: "2-digit", day: "2-digit",
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
});

export function zone() {
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone || "this machine's zone";
  const offset = new Intl.DateTimeFormat("en", { timeZoneName: "shortOffset" })
    .formatToParts(new Date()).find((part) => part.type === "timeZoneName")?.value;
  return offset ? `${name} (${offset})` : name;
}

export function localise(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.valueOf())) continue;
    time.textContent = shown.format(at).replace(",", ".");
    time.title = time.dateTime;
  }
}
