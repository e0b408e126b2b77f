// Names and focus that the theme leaves out, for those who hear a page or use no mouse.
addEventListener("load", () => setTimeout(() => {
  document.querySelectorAll(".md-code__nav").forEach((nav, n) => nav.setAttribute("aria-label", `code block ${n + 1}`))
  document.querySelectorAll(".md-search").forEach((box) => box.setAttribute("aria-label", "Search"))
  document.querySelectorAll("input.md-toggle").forEach((box) => box.setAttribute("aria-label", box.id))
  document.querySelectorAll(".md-typeset__scrollwrap, div.arithmatex, .picture, pre > code").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0
  })
}, 300))
