// Keys for the console, and parts of pages that are refreshed. Every page works without it.
'use strict';

// Parts of pages of this server. A page is read as a document, in which nothing runs, and its elements are taken over as elements:
// no text becomes markup here. What has not changed stays, with the focus and what was typed.
const parts = {
  read: (method, url, body) => new Promise((take, fail) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    request.responseType = 'document';
    request.timeout = 30_000;
    request.onload = () => request.response ? take(request) : fail(new Error('no page'));
    request.onerror = request.ontimeout = () => fail(new Error('no answer'));
    if (body) request.setRequestHeader('content-type', 'application/x-www-form-urlencoded');
    request.send(body);
  }),
  take(page, ...ids) {
    for (const id of ids) {
      const [old, next] = [document.getElementById(id), page.getElementById(id)];
      // What a person has opened stays open, and what a script has drawn stays until it is drawn again.
      const callbacks = {
        beforeAttributeUpdated: (name, element) => !(name === 'open' && element.tagName === 'DETAILS'),
        beforeNodeRemoved: node => !node.classList?.contains('drawn'),
      };
      if (old && next) Idiomorph.morph(old, document.importNode(next, true), {ignoreActiveValue: true, callbacks});
    }
    document.dispatchEvent(new Event('parts'));
  },
};

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
    if (isTyping(event.composedPath()[0])) return;
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
      // What acts on the row with the focus, or else on what the page is about.
      const row = rows().find(row => row.contains(document.activeElement)) || document.querySelector('main [data-row]');
      const own = `[data-key="${CSS.escape(key)}"]`;
      const target = row && row.querySelector(own) || document.querySelector(`main .crumbs ${own}`);
      if (!target) return;
      event.preventDefault();
      const details = target.tagName === 'SUMMARY' && target.parentElement;
      if (!details) return target.click();
      details.open = true;
      details.querySelector('textarea, input:not([type=hidden])').focus();
    }
  });

  // Who leaves a form that was opened by a key is back in its row.
  document.addEventListener('keydown', event => {
    const details = event.key === 'Escape' && event.target.closest?.('details.act[open]');
    if (!details) return;
    details.open = false;
    details.querySelector('summary').focus();
  });

  // In a queue the focus stays at its place when a row has been acted on.
  document.addEventListener('submit', event => {
    const at = rows().findIndex(row => row.parentElement.matches('ul.queue') && row.contains(event.target));
    if (at >= 0) sessionStorage.setItem('row', at);
  });
  const place = sessionStorage.getItem('row');
  sessionStorage.removeItem('row');
  if (place !== null && document.querySelector('ul.queue')) {
    const all = rows();
    all[Math.min(Number(place), all.length - 1)]?.querySelector('a, button')?.focus();
  }

  // Decisions as they are made, put in front of those that are listed. Texts are texts: nothing is made of markup.
  const follow = document.querySelector('a[data-follow]');
  const list = document.querySelector('table.decisions tbody');
  if (follow && list && 'EventSource' in window) {
    const count = document.getElementById('fresh-count');
    const canChoose = !!list.querySelector('input[type=checkbox]');
    const add = (parent, tag, name, text) => {
      const element = document.createElement(tag);
      if (name) element.className = name;
      if (text !== undefined) element.textContent = text;
      parent.append(element);
      return element;
    };
    let source = null, fresh = 0, lost = 0;
    const say = () => {
      follow.textContent = source ? follow.dataset.pause : follow.dataset.label;
      follow.setAttribute('aria-pressed', String(!!source));
      count.textContent = (fresh ? `${fresh} ${count.dataset.fresh}` : '') + (lost ? `; ${lost} ${count.dataset.lost}` : '');
    };
    const show = one => {
      const row = document.createElement('tr');
      row.className = 'fresh';
      const head = add(row, 'td', 'nowrap');
      if (canChoose) {
        const box = add(head, 'input');
        box.type = 'checkbox';
        box.name = 'id';
        box.value = one.id;
        box.setAttribute('aria-label', one.choose);
        head.append(' ');
      }
      const link = add(head, 'a');
      link.href = `/console/decisions/${encodeURIComponent(one.id)}`;
      add(link, 'span', `badge ${one.action}`, one.word);
      add(link, 'span', 'unseen', ` ${one.id}`);
      add(row, 'td', 'nowrap', one.time);
      add(row, 'td', 'number', one.score);
      const event = add(row, 'td', 'event whole');
      add(event, 'span', 'dim', one.pipeline);
      for (const [name, text] of one.facts) {
        event.append(' ');
        const fact = add(event, 'span', 'fact');
        fact.title = name;
        add(fact, 'bdi', 'value', text);
      }
      add(row, 'td', 'whole', one.rules);
      list.prepend(row);
      while (list.rows.length > 300) list.deleteRow(-1);
      fresh++;
    };
    follow.setAttribute('role', 'button');
    follow.addEventListener('click', click => {
      click.preventDefault();
      if (source) {
        source.close();
        source = null;
      } else {
        source = new EventSource(follow.dataset.follow);
        source.addEventListener('decision', event => { show(JSON.parse(event.data)); say(); });
        source.addEventListener('lost', event => { lost += Number(event.data); say(); });
      }
      say();
    });
    follow.addEventListener('keydown', event => { if (event.key === ' ') { event.preventDefault(); follow.click(); } });
    addEventListener('pagehide', () => { if (source) source.close(); });
    say();
  }

  // A part that shows what is now. It rests while nobody sees it, and once nobody has touched anything for long: a session that is
  // idle is to end.
  const again = document.querySelector('a[data-refresh]');
  if (again) {
    const REST = 15 * 60_000;
    let isOn = true, touched = Date.now();
    const say = () => {
      again.textContent = isOn ? again.dataset.pause : again.dataset.label;
      again.setAttribute('aria-pressed', String(isOn));
    };
    const look = async () => {
      // The part may say no more that something is to come.
      if (!again.isConnected) return;
      if (isOn && Date.now() - touched > REST) { isOn = false; say(); }
      if (isOn && !document.hidden) {
        try {
          const {response} = await parts.read('GET', location.href);
          // Where the part is not, one has to log in again.
          if (!response.getElementById(again.dataset.of)) return location.reload();
          if (isOn) parts.take(response, again.dataset.of);
        } catch { /* at the next look */ }
      }
      setTimeout(look, again.dataset.refresh * 1000);
    };
    for (const kind of ['pointermove', 'pointerdown', 'keydown', 'scroll']) addEventListener(kind, () => { touched = Date.now(); }, {passive: true});
    again.setAttribute('role', 'button');
    again.addEventListener('click', click => { click.preventDefault(); isOn = !isOn; say(); });
    again.addEventListener('keydown', event => { if (event.key === ' ') { event.preventDefault(); again.click(); } });
    say();
    setTimeout(look, again.dataset.refresh * 1000);
  }
})();

// The search in decisions: facts and readings are completed in its condition and among the facts to show, in a list below the field.
// Arrows choose, Enter or Tab takes, Escape closes, Ctrl+Space opens.
for (const list of document.querySelectorAll('form.search .completion')) {
  const MOST = 8;
  const text = list.parentElement.querySelector('input'), {pipeline} = text.form.elements;
  const ask = () => fetch(`${list.dataset.names}?${new URLSearchParams(pipeline.value ? {pipeline: pipeline.value} : {})}`);
  const isWanted = ({of}) => !list.dataset.of || list.dataset.of.split(' ').includes(of);
  let names, shown = [], at = -1;
  const word = () => (/[\w.]+$/.exec(text.value.slice(0, text.selectionStart)) || [''])[0];
  const close = () => { list.hidden = true; shown = []; text.removeAttribute('aria-activedescendant'); };
  const mark = next => {
    at = next;
    [...list.children].forEach((item, index) => item.setAttribute('aria-selected', String(index === at)));
    if (at < 0) return text.removeAttribute('aria-activedescendant');
    text.setAttribute('aria-activedescendant', list.children[at].id);
    list.children[at].scrollIntoView({block: 'nearest'});
  };
  const open = async asked => {
    names ||= ask().then(answer => answer.ok ? answer.json() : {names: []}).then(answer => answer.names.filter(isWanted)).catch(() => []);
    const known = await names, typed = word();
    const fits = typed.length > 1 || asked ? known.filter(({name}) => name !== typed && name.toLowerCase().includes(typed.toLowerCase())) : [];
    fits.sort((one, other) => other.name.startsWith(typed) - one.name.startsWith(typed));
    shown = fits.slice(0, MOST);
    if (!shown.length || document.activeElement !== text) return close();
    list.replaceChildren(...shown.map(({name, of, type, description}, index) => {
      const item = document.createElement('li'), code = document.createElement('code'), more = document.createElement('span');
      item.id = `${list.id}-${index}`;
      item.setAttribute('role', 'option');
      code.textContent = name;
      more.className = 'dim';
      more.textContent = [of, type, description].filter(Boolean).join(' · ').slice(0, 160);
      item.append(code, more);
      item.addEventListener('pointerdown', event => { event.preventDefault(); complete(index); });
      return item;
    }));
    list.hidden = false;
    mark(asked ? 0 : -1);
  };
  const complete = index => {
    const {name} = shown[index], end = text.selectionStart;
    text.setRangeText(name, end - word().length, end, 'end');
    close();
  };
  text.setAttribute('aria-autocomplete', 'list');
  text.setAttribute('aria-controls', list.id);
  text.addEventListener('input', () => open(false));
  text.addEventListener('blur', close);
  text.addEventListener('keydown', event => {
    if (event.key === ' ' && event.ctrlKey) { event.preventDefault(); return open(true); }
    if (list.hidden) return;
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step) { event.preventDefault(); mark((at + step + shown.length) % shown.length); }
    else if ((event.key === 'Enter' || event.key === 'Tab') && at >= 0) { event.preventDefault(); complete(at); }
    else if (event.key === 'Escape') { event.preventDefault(); close(); }
  });
  // Other names belong to another pipeline.
  pipeline.addEventListener('change', () => { names = undefined; });
}
