// What the editor of rules takes of CodeMirror. The bundle has these, and what they need, as `codemirror`.
export {autocompletion, completionKeymap, startCompletion} from '@codemirror/autocomplete';
export {defaultKeymap, history, historyKeymap} from '@codemirror/commands';
export {bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting} from '@codemirror/language';
export {toml} from '@codemirror/legacy-modes/mode/toml';
export {lintGutter, lintKeymap, setDiagnostics} from '@codemirror/lint';
export {highlightSelectionMatches, search, searchKeymap} from '@codemirror/search';
export {EditorState} from '@codemirror/state';
export {drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers} from '@codemirror/view';
export {tags} from '@lezer/highlight';
