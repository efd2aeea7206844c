// Makes elements. Text from the API is always a text node or an attribute, never markup.

/** An element with attributes and children; a string among the children becomes text. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((each) => each != null));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Sets an element's text if it differs: a screen reader repeats a text that is set again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Gives a list the children with these keys, in this order; existing ones are kept. */
export function arrange(list, keyed) {
  const stays = new Set(keyed);
  for (const each of [...list.children]) if (!stays.has(each)) each.remove();
  let at = list.firstElementChild;
  for (const each of keyed) {
    if (each === at) at = at.nextElementSibling;
    else list.insertBefore(each, at);
  }
}

/** A bar for a share between 0 and 1, with a text that says what it means. */
export function meter(label) {
  const fill = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  bar.setAttribute("class", "bar");
  bar.setAttribute("role", "img");
  bar.setAttribute("viewBox", "0 0 100 8");
  bar.setAttribute("preserveAspectRatio", "none");
  fill.setAttribute("height", "8");
  bar.append(fill);
  const text = make("span", {class: "amount"});
  const element = make("div", {class: "meter"}, make("span", {}, label), bar, text);
  return {
    element,
    set(share, words) {
      fill.setAttribute("width", String(100 * Math.min(1, Math.max(0, share))));
      bar.classList.toggle("full", share > 0.9);
      if (bar.getAttribute("aria-label") !== `${label}: ${words}`) bar.setAttribute("aria-label", `${label}: ${words}`);
      say(text, words);
    },
  };
}
