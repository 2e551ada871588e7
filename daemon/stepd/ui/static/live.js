// Keeps a part of a page up to date: told by server-sent events that there is something new, it fetches the part anew
// and puts in place what has changed, element by element. What the viewer has opened, chosen or scrolled stays so.
import { localise } from "./times.js";

const RETRY_MS = 2000;

export function follow(root) {
  const written = new Map();
  for (const child of root.children) written.set(child.id, null);
  let busy = false;
  let again = false;

  async function refresh() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(root.dataset.part, { headers: { accept: "text/html" }, redirect: "manual" });
      if (answer.ok) put(root, await answer.text(), written);
      else if (answer.type === "opaqueredirect" || answer.status === 401) location.reload();
    } catch {
      // The stream tells when the daemon is back.
    } finally {
      busy = false;
    }
    if (again) {
      again = false;
      await refresh();
    }
  }

  let source = null;

  function listen(isFirst) {
    source?.close();
    const stream = new EventSource(root.dataset.live);
    source = stream;
    stream.onopen = () => {
      root.dataset.state = "live";
      if (!isFirst) refresh();
      isFirst = false;
    };
    stream.onmessage = refresh;
    stream.addEventListener("ended", () => {
      stream.close();
      root.dataset.state = "ended";
      refresh();
    });
    stream.onerror = () => {
      if (root.dataset.state !== "away") refresh(); // whose session has ended sees it at once
      root.dataset.state = "away";
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => stream === source && resume(), RETRY_MS);
    };
  }

  function resume() {
    if (!document.hidden) {
      refresh();
      listen(false);
    }
  }

  // A browser has few connections to one host: a page that nobody looks at holds none.
  document.addEventListener("visibilitychange", () => {
    if (root.dataset.state === "ended") return;
    source?.close();
    resume();
  });

  listen(true);
}

function put(root, text, written) {
  const fresh = new DOMParser().parseFromString(text, "text/html").body;
  const ids = [...fresh.children].map((child) => child.id);
  for (const child of [...root.children]) if (!ids.includes(child.id)) child.remove();
  let before = null;
  for (const child of [...fresh.children]) {
    const text = child.outerHTML;
    const old = document.getElementById(child.id);
    if (old && written.get(child.id) === text) {
      before = old;
      continue;
    }
    written.set(child.id, text);
    const node = document.importNode(child, true);
    localise(node);
    if (old) replace(old, node);
    else if (before) before.after(node);
    else root.prepend(node);
    before = node;
  }
}

function replace(old, node) {
  const opened = new Map([...old.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
  const scrolled = [...old.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
  const own = [old.scrollLeft, old.scrollTop];
  const focused = old.contains(document.activeElement) ? pathOf(document.activeElement, old) : null;
  old.replaceWith(node);
  for (const one of node.querySelectorAll("details[id]")) if (opened.has(one.id)) one.open = opened.get(one.id);
  [...node.querySelectorAll(".scroll")].forEach((one, at) => {
    if (scrolled[at]) [one.scrollLeft, one.scrollTop] = scrolled[at];
  });
  [node.scrollLeft, node.scrollTop] = own;
  if (focused) find(node, focused)?.focus({ preventScroll: true });
}

// Where an element stands below another, as places among children; an address holds where rows come and go.
function pathOf(element, root) {
  const href = element.getAttribute("href");
  if (href) return { href };
  const places = [];
  for (let at = element; at !== root; at = at.parentElement) places.unshift([...at.parentElement.children].indexOf(at));
  return { places };
}

function find(root, { href, places }) {
  if (href) return root.querySelector(`[href="${CSS.escape(href)}"]`);
  return places.reduce((at, place) => at?.children[place], root);
}
