// Keeps the focus where it was.
(() => {
  // Parts of the page are drawn anew while somebody goes through it by keyboard; whoever was at a
  // control is put back to the control of the same name.
  const all = 'button, input, textarea, summary, a[href], [tabindex]:not([tabindex="-1"])';
  const inside = () => [...(document.querySelector('main')?.querySelectorAll(all) || [])];
  const name = (e) => e.tagName + (e.getAttribute('aria-label') || e.textContent.trim());
  const alike = (called) => inside().filter((e) => name(e) === called);
  let last = null;
  document.addEventListener('focusin', (event) => {
    const called = name(event.target);
    last = inside().includes(event.target)
      ? {called, n: alike(called).indexOf(event.target)} : null;
  });
  document.addEventListener('pointerdown', () => { last = null; }, true);
  new MutationObserver(() => {
    if (document.activeElement !== document.body || last === null) return;
    const same = alike(last.called).filter((e) => !e.disabled);
    if (same.length) same[Math.min(last.n, same.length - 1)].focus({preventScroll: true});
  }).observe(document.body, {childList: true, subtree: true, attributeFilter: ['disabled']});
})();
