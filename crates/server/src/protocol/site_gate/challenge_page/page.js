// The page's own part: solves the challenge in a worker, hands the solution in, and goes back to where the visitor wanted to
// be. `solve` stands before it. Sent pages have neither these lines nor indentation.
(() => {
  const element = name => document.getElementById('th-' + name);
  const {challenge, form: isForm, return: wanted, text} = JSON.parse(element('data').textContent);
  const status = element('status'), bar = element('bar'), button = element('go'), form = element('form');
  const say = key => status.textContent = text[key];
  const offer = (label, action) => {
    button.textContent = text[label];
    button.onclick = action;
    button.hidden = false;
    bar.hidden = true;
  };
  // By hand, trying again is no loop.
  const anew = () => {
    try { sessionStorage.removeItem('tollhouse'); } catch {}
    location.reload();
  };
  const failed = key => {
    say(key);
    if (isForm) offer('back', back);
    else offer('retry', anew);
  };
  const back = () => history.length > 1 ? history.back() : location.assign(document.referrer || '/');
  // A page that came by POST must not be reloaded: that would send the form unasked.
  const leave = () => {
    const target = new URL(location.origin + wanted);
    target.hash = location.hash;
    // To go where one is would only look for the fragment.
    if (target.href == location.href) location.reload();
    else location.replace(target);
  };

  const {parameters} = challenge, expected = 16 ** parameters.keyPrefix.length;
  let started, slow;
  const show = tried => {
    bar.value = 1 - Math.exp(-tried / expected);
    if (!slow && performance.now() - started > 8000) say(slow = 'slow');
  };
  const solution = () => new Promise((resolve, reject) => {
    const here = () => solve(parameters, self.crypto && crypto.subtle, tried => {
      show(tried);
      return new Promise(go => setTimeout(go));
    }).then(resolve, reject);
    try {
      const code = `${solve};onmessage=e=>solve(e.data,self.crypto&&crypto.subtle,n=>postMessage(n)).then(postMessage,()=>postMessage(0))`;
      const url = URL.createObjectURL(new Blob([code], {type: 'text/javascript'})), worker = new Worker(url);
      worker.onmessage = ({data}) => {
        if (data.counter >= 0) {
          worker.terminate();
          URL.revokeObjectURL(url);
          resolve(data);
        } else show(data);
      };
      worker.onerror = here;
      worker.postMessage(parameters);
    } catch { here(); }
  });

  const start = async () => {
    button.hidden = true;
    bar.hidden = false;
    say('working');
    started = performance.now();
    let solved;
    try { solved = await solution(); } catch { return failed('unsupported'); }
    const time = Math.round(performance.now() - started);
    const json = JSON.stringify({challenge, solution: {...solved, time}});
    form.altcha.value = btoa(json.replace(/[^\x00-\x7f]/g, sign => '\\u' + sign.charCodeAt().toString(16).padStart(4, '0')));
    let answer;
    try {
      // A form that is sent could not follow where the site redirects to from there (`form-action`), and would lose the
      // fragment and the referrer.
      answer = await fetch(form.action, {method: 'POST', body: new URLSearchParams(new FormData(form)), redirect: 'manual'});
    } catch { return failed('offline'); }
    bar.value = 1;
    if (answer.ok || answer.type == 'opaqueredirect') {
      say(isForm ? 'form_done' : 'done');
      if (!isForm) return leave();
      offer('back', back);
      button.focus();
    } else if (answer.status == 410 && !isForm) leave();
    else failed(answer.status == 410 ? 'expired' : 'refused');
  };

  // What keeps cookies away mostly keeps storage away, too. Without either a loop could not be seen.
  let tries = 0, kept = false;
  try {
    document.cookie = 'th-try=1;path=/;max-age=9;samesite=lax';
    kept = /th-try=1/.test(document.cookie);
    document.cookie = 'th-try=;path=/;max-age=0';
    const [count, time] = (sessionStorage.tollhouse || '').split(' ');
    if (Date.now() - time < 3e5) tries = +count;
    sessionStorage.tollhouse = tries + 1 + ' ' + Date.now();
  } catch { kept = false; }
  if (!kept) {
    say('cookies');
    offer('retry', isForm ? start : anew);
  } else if (tries > 2) {
    say('repeated');
    offer('retry', start);
  } else start();
})();
