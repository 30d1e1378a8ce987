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
})();

// Names in a list below a field: arrows choose, Enter or Tab takes, Escape closes, Ctrl+Space opens.
const completes = (text, list, ask, isWanted, then) => {
  const MOST = 8;
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
    then();
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
  // Other names belong to what was chosen meanwhile.
  return () => { names = undefined; };
};

// The search in decisions: facts and readings are completed in its condition and among the facts to show.
for (const list of document.querySelectorAll('form.search .completion')) {
  const text = list.parentElement.querySelector('input'), {pipeline} = text.form.elements;
  const names = () => fetch(`${list.dataset.names}?${new URLSearchParams(pipeline.value ? {pipeline: pipeline.value} : {})}`);
  const forget = completes(text, list, names, ({of}) => !list.dataset.of || list.dataset.of.split(' ').includes(of), () => {});
  pipeline.addEventListener('change', forget);
}

// The editor of rules: what a trial finds comes as it is found, names are completed, and a text is tried while it is typed.
(() => {
  const form = document.getElementById('editor');
  const text = document.getElementById('text');
  if (!form || !text) return;

  // Another page of this server, read as a document: nothing in it runs, and no text becomes markup here.
  const read = (method, url, body) => new Promise((take, fail) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    request.responseType = 'document';
    request.timeout = 30_000;
    request.onload = () => request.response ? take(request) : fail(new Error('no page'));
    request.onerror = request.ontimeout = () => fail(new Error('no answer'));
    if (body) request.setRequestHeader('content-type', 'application/x-www-form-urlencoded');
    request.send(body);
  });
  // Takes parts of another page over, unless the focus is in them.
  const take = (page, ...ids) => {
    for (const id of ids) {
      const [old, next] = [document.getElementById(id), page.getElementById(id)];
      if (old && next && !old.contains(document.activeElement)) old.replaceWith(document.importNode(next, true));
    }
  };

  const isPending = () => ['waiting', 'sampling', 'running'].includes(document.getElementById('trial')?.dataset.state);
  let watched = 0;
  const watch = url => {
    const mine = ++watched;
    const look = async () => {
      if (mine !== watched || !isPending()) return;
      try { const {response} = await read('GET', url); if (mine === watched) take(response, 'trial'); } catch { /* at the next look */ }
      setTimeout(look, document.hidden ? 5000 : 700);
    };
    setTimeout(look, 300);
  };
  const again = document.querySelector('#trial a.again');
  if (again) watch(again.getAttribute('href').split('#')[0]);

  // Trials while one types: each takes the place of the one before.
  const live = document.getElementById('live');
  const box = live.querySelector('input');
  let waits, isAsked = false, isStale = false;
  live.hidden = false;
  const attempt = async () => {
    if (isAsked) { isStale = true; return; }
    isAsked = true;
    const fields = new URLSearchParams(new FormData(form));
    fields.set('do', 'try');
    try {
      const {response, responseURL} = await read('POST', form.action, fields);
      take(response, 'found');
      const trial = response.querySelector('#editor input[name=trial]')?.value;
      if (trial) {
        form.elements.trial.value = trial;
        take(response, 'trial');
        watch(responseURL.split('#')[0]);
      }
    } catch { /* at the next change */ }
    isAsked = false;
    if (isStale) { isStale = false; attempt(); }
  };
  const soon = () => { clearTimeout(waits); if (box.checked) waits = setTimeout(attempt, 900); };
  text.addEventListener('input', soon);
  form.elements.span.addEventListener('change', soon);
  box.addEventListener('change', soon);

  // A mistake leads to its place.
  document.addEventListener('click', event => {
    const at = event.target.closest?.('a.at[data-line]');
    if (!at) return;
    event.preventDefault();
    const lines = text.value.split('\n');
    const before = lines.slice(0, at.dataset.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
    const place = Math.min(before + Number(at.dataset.column) - 1, text.value.length);
    text.focus();
    text.setSelectionRange(place, before + (lines[at.dataset.line - 1] || '').length);
    text.scrollTop = Math.max(0, (at.dataset.line - 4) * parseFloat(getComputedStyle(text).lineHeight));
  });

  // Names, below the text.
  const names = () => fetch(form.dataset.names);
  completes(text, document.getElementById('completion'), names, () => true, soon);
})();
