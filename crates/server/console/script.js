// Keys for the console. Every page works without it.
'use strict';
(() => {
  const rows = () => [...document.querySelectorAll('table.rows tbody tr, ul.queue > li')];
  const find = document.getElementById('find');
  const help = document.getElementById('keys');
  let pending = '';

  const isTyping = target => target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);

  // A row is where the focus is on its first link or button; so a screen reader follows, and Enter opens it.
  const move = step => {
    const all = rows();
    const at = all.findIndex(row => row.contains(document.activeElement));
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
    const target = next && (next.querySelector('a, button') || next);
    if (!target) return;
    if (target === next) next.tabIndex = -1;
    target.focus();
    next.scrollIntoView({block: 'nearest'});
  };

  document.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === 'Escape' && document.activeElement === find) return find.blur();
    if (isTyping(event.target)) return;
    const key = event.key;
    if (pending === 'g') {
      pending = '';
      const link = [...document.querySelectorAll('header nav a[data-key]')].find(link => link.dataset.key === key);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    if (key === '/' && find) { event.preventDefault(); find.focus(); find.select(); }
    else if (key === 'j') move(1);
    else if (key === 'k') move(-1);
    else if (key === '?' && help) { event.preventDefault(); if (!help.open) help.showModal(); }
    else if (key === 'g') { pending = 'g'; setTimeout(() => { pending = ''; }, 1500); }
    else {
      const row = rows().find(row => row.contains(document.activeElement));
      const button = row && [...row.querySelectorAll('button[data-key]')].find(button => button.dataset.key === key);
      if (button) { event.preventDefault(); button.click(); }
    }
  });
})();
