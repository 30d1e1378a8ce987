// The editor of rules: CodeMirror in place of the text area, which goes on to carry the text. Mistakes are shown where they are while
// one types, names are completed, and a text is tried. Without it the form works as it is.
'use strict';
(() => {
  const form = document.getElementById('editor');
  const area = document.getElementById('text');
  if (!form || !area) return;
  const {
    autocompletion, bracketMatching, completionKeymap, defaultKeymap, drawSelection, EditorState, EditorView, highlightActiveLine,
    highlightActiveLineGutter, highlightSelectionMatches, highlightSpecialChars, HighlightStyle, history, historyKeymap, keymap, lineNumbers,
    lintGutter, lintKeymap, search, searchKeymap, setDiagnostics, StreamLanguage, syntaxHighlighting, tags, toml,
  } = codemirror;

  // Names are asked for once; those that begin as the word does come first.
  let known;
  const names = () => known ||= fetch(form.dataset.names).then(answer => answer.ok ? answer.json() : {names: []}).then(({names}) =>
    names.map(({name, of, type, description}) => ({label: name, detail: [of, type].filter(Boolean).join(' · '), info: description || undefined}))
  ).catch(() => []);
  const complete = async context => {
    const word = context.matchBefore(/[\w.]+/);
    if (!context.explicit && (!word || word.to - word.from < 2)) return null;
    return {from: word ? word.from : context.pos, options: await names(), validFor: /^[\w.]*$/};
  };

  const colors = HighlightStyle.define([
    {tag: tags.comment, color: 'var(--dim)', fontStyle: 'italic'},
    {tag: [tags.string, tags.special(tags.string)], color: 'var(--good)'},
    {tag: [tags.number, tags.bool, tags.atom], color: 'var(--warn)'},
    {tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--link)'},
  ]);
  const theme = EditorView.theme({
    // As high as its text, within bounds.
    '&': {maxHeight: '65vh', backgroundColor: 'var(--card)', color: 'var(--text)'},
    '.cm-scroller': {font: '.92rem/1.5 var(--mono)', overflow: 'auto'},
    '.cm-content, .cm-gutter': {minHeight: '14rem'},
    '.cm-content': {caretColor: 'var(--text)'},
    '&.cm-focused': {outline: 'none'},
    '.cm-cursor': {borderLeftColor: 'var(--text)'},
    '.cm-gutters': {backgroundColor: 'var(--back)', color: 'var(--dim)', borderRight: '1px solid var(--edge)'},
    '.cm-activeLine, .cm-activeLineGutter': {backgroundColor: 'color-mix(in srgb, var(--info-back) 40%, transparent)'},
    '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {background: 'var(--info-back)'},
    '.cm-tooltip': {backgroundColor: 'var(--card)', color: 'var(--text)', border: '1px solid var(--edge-strong)', borderRadius: '6px', maxWidth: '32rem'},
    '.cm-tooltip.cm-tooltip-autocomplete > ul': {fontFamily: 'var(--mono)'},
    '.cm-tooltip.cm-tooltip-autocomplete > ul > li': {padding: '.15rem .5rem'},
    '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': {background: 'var(--info-back)', color: 'var(--info)'},
    '.cm-completionDetail': {color: 'var(--dim)', fontStyle: 'normal'},
    '.cm-panels': {backgroundColor: 'var(--back)', color: 'var(--text)'},
    '.cm-textfield, .cm-button': {backgroundColor: 'var(--card)', backgroundImage: 'none', color: 'var(--text)', border: '1px solid var(--edge-strong)'},
    '.cm-searchMatch': {backgroundColor: 'var(--warn-back)'},
    // Marks of the library are pictures in its style, which the policy does not load.
    '.cm-lintRange.cm-lintRange-error': {backgroundImage: 'none', textDecoration: 'underline wavy var(--bad)', textDecorationSkipInk: 'none'},
    '.cm-lintRange.cm-lintRange-warning': {backgroundImage: 'none', textDecoration: 'underline wavy var(--warn)', textDecorationSkipInk: 'none'},
    '.cm-lint-marker.cm-lint-marker-error, .cm-lint-marker.cm-lint-marker-warning': {content: 'normal', boxSizing: 'border-box', margin: '.25em .1em', width: '.9em', height: '.9em'},
    '.cm-lint-marker.cm-lint-marker-error': {background: 'var(--bar-bad)', borderRadius: '50%'},
    '.cm-lint-marker.cm-lint-marker-warning': {background: 'var(--bar-warm)', clipPath: 'polygon(50% 0, 100% 100%, 0 100%)'},
    '.cm-diagnostic': {font: '.85rem/1.4 system-ui, sans-serif', whiteSpace: 'pre-wrap'},
  });

  // What is inside of a shadow root may be styled by script; the page may not, by its policy.
  const host = document.createElement('div');
  host.className = 'code';
  const root = host.attachShadow({mode: 'open'});
  const wait = 500;
  let waits;
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: area.value,
      extensions: [
        lineNumbers(), lintGutter(), highlightActiveLine(), highlightActiveLineGutter(), highlightSpecialChars(), drawSelection(), history(),
        bracketMatching(), highlightSelectionMatches(), search({top: true}), StreamLanguage.define(toml), syntaxHighlighting(colors), theme,
        autocompletion({override: [complete], icons: false}),
        // Tab leads out of the editor, as everywhere.
        keymap.of([...completionKeymap, ...searchKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorState.phrases.of(JSON.parse(form.dataset.phrases)),
        EditorView.contentAttributes.of({tabindex: '0', 'aria-label': form.dataset.label, spellcheck: 'false', autocapitalize: 'off'}),
        EditorView.updateListener.of(update => {
          if (!update.docChanged) return;
          area.value = update.state.doc.toString();
          clearTimeout(waits);
          waits = setTimeout(attempt, wait);
        }),
      ],
    }),
  });
  area.before(host);
  area.hidden = true;
  form.querySelector('label[for=text]').addEventListener('click', () => view.focus());

  const place = (line, column) => {
    const of = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
    return Math.min(of.from + Math.max(column, 1) - 1, of.to);
  };
  // Marks what the checker found, each up to the end of its word.
  const mark = () => {
    const found = [...document.querySelectorAll('#found a.at[data-line]')].map(({dataset: {line, column, severity, message}}) => {
      const from = place(Number(line), Number(column));
      const word = /^[\w.]+/.exec(view.state.sliceDoc(from, view.state.doc.lineAt(from).to));
      return {from, to: from + (word ? word[0].length : Math.min(1, view.state.doc.length - from)), severity: severity === 'error' ? 'error' : 'warning', message};
    });
    view.dispatch(setDiagnostics(view.state, found));
  };
  mark();

  // What a trial finds comes as it is found.
  const isPending = () => ['waiting', 'sampling', 'running'].includes(document.getElementById('trial')?.dataset.state);
  let watched = 0;
  const watch = url => {
    const mine = ++watched;
    const look = async () => {
      if (mine !== watched || !isPending()) return;
      try { const {response} = await parts.read('GET', url); if (mine === watched) parts.take(response, 'trial'); } catch { /* at the next look */ }
      setTimeout(look, document.hidden ? 5000 : 700);
    };
    setTimeout(look, 300);
  };
  const again = document.querySelector('#trial a.again');
  if (again) watch(again.getAttribute('href').split('#')[0]);

  // A text is checked while one types, and tried if that is wanted: each trial takes the place of the one before.
  const live = document.getElementById('live');
  const box = live.querySelector('input');
  let isAsked = false, isStale = false;
  live.hidden = false;
  const attempt = async () => {
    if (isAsked) { isStale = true; return; }
    isAsked = true;
    const fields = new URLSearchParams(new FormData(form));
    fields.set('do', box.checked ? 'try' : 'check');
    try {
      const {response, responseURL} = await parts.read('POST', form.action, fields);
      parts.take(response, 'found');
      // Places are those of the text that was sent.
      if (fields.get('text') === area.value) mark();
      const trial = response.querySelector('#editor input[name=trial]')?.value;
      if (trial) {
        form.elements.trial.value = trial;
        parts.take(response, 'trial');
        watch(responseURL.split('#')[0]);
      }
    } catch { /* at the next change */ }
    isAsked = false;
    if (isStale) { isStale = false; attempt(); }
  };
  for (const input of [form.elements.span, box]) input.addEventListener('change', () => { if (box.checked) attempt(); });

  // A mistake leads to its place.
  document.addEventListener('click', event => {
    const at = event.target.closest?.('a.at[data-line]');
    if (!at) return;
    event.preventDefault();
    const anchor = place(Number(at.dataset.line), Number(at.dataset.column));
    view.dispatch({selection: {anchor, head: view.state.doc.lineAt(anchor).to}, effects: EditorView.scrollIntoView(anchor, {y: 'center'})});
    view.focus();
  });
})();
