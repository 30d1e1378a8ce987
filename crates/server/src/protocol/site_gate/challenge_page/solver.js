// Searches the counter that solves a challenge in ALTCHA's form: PBKDF2/SHA-256, or SHA-256 again and again.
//
// It stands alone, as it runs in a worker or, where a page may have none, in the page. `rest(tried)` is awaited every few
// milliseconds of calculation, so that whoever has called it can do something else. Sent pages have neither these lines nor
// indentation: a statement may not go on where a line begins with a comment.
async function solve(parameters, subtle, rest) {
  const {algorithm, cost, keyLength = 32, keyPrefix} = parameters;
  const stretched = algorithm == 'PBKDF2/SHA-256';
  if (!stretched && algorithm != 'SHA-256') throw Error('algorithm');
  const bytes = text => Uint8Array.from(text.match(/../g) || [], pair => parseInt(pair, 16));
  const hex = list => Array.from(list, byte => byte.toString(16).padStart(2, '0')).join('');
  const salt = bytes(parameters.salt), nonce = bytes(parameters.nonce);
  const password = new Uint8Array(nonce.length + 4);
  password.set(nonce);
  let tried = 0, until = performance.now() + 10;
  const pause = async () => {
    await rest(tried);
    until = performance.now() + 10;
  };

  // SHA-256 of our own: pages over plain HTTP have no `crypto.subtle`, and a call of it costs more than a digest.
  const K = new Int32Array(64), START = new Int32Array(8), w = new Int32Array(64);
  for (let n = 2, found = 0; found < 64; n++) {
    let d = 2;
    while (d * d <= n && n % d) d++;
    if (d * d > n) {
      if (found < 8) START[found] = n ** .5 * 4294967296;
      K[found++] = Math.cbrt(n) * 4294967296;
    }
  }
  const compress = state => {
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15], y = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3) + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10);
    }
    let a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    for (let i = 0; i < 64; i++) {
      const t = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (e & f ^ ~e & g) + K[i] + w[i] | 0;
      const u = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b ^ a & c ^ b & c) | 0;
      h = g; g = f; f = e; e = d + t | 0; d = c; c = b; b = a; a = t + u | 0;
    }
    state[0] += a; state[1] += b; state[2] += c; state[3] += d; state[4] += e; state[5] += f; state[6] += g; state[7] += h;
  };
  // Goes on from a state that has taken in `before` bytes, whole blocks, and ends it.
  const digest = (from, before, data) => {
    const state = from.slice(), length = data.length, end = length + 72 & ~63;
    const padded = new Uint8Array(end), view = new DataView(padded.buffer);
    padded.set(data);
    padded[length] = 128;
    view.setUint32(end - 4, (before + length) * 8);
    for (let at = 0; at < end; at += 64) {
      for (let i = 0; i < 16; i++) w[i] = view.getInt32(at + i * 4);
      compress(state);
    }
    return state;
  };
  // Puts the digest of a digest in its place, without copies.
  const again = (state, from, before) => {
    for (let i = 0; i < 8; i++) {
      w[i] = state[i];
      state[i] = from[i];
    }
    w[8] = 1 << 31;
    for (let i = 9; i < 15; i++) w[i] = 0;
    w[15] = (before + 32) * 8;
    compress(state);
  };
  const octets = (state, length) => {
    const view = new DataView(new ArrayBuffer(32));
    state.forEach((word, i) => view.setInt32(i * 4, word));
    return new Uint8Array(view.buffer).subarray(0, length);
  };
  const joined = (...parts) => Uint8Array.from(parts.flatMap(part => [...part]));

  const derive = async counter => {
    new DataView(password.buffer).setUint32(nonce.length, counter);
    if (subtle) {
      const key = await subtle.importKey('raw', password.slice(), 'PBKDF2', false, ['deriveBits']);
      return new Uint8Array(await subtle.deriveBits({name: 'PBKDF2', hash: 'SHA-256', salt, iterations: cost}, key, keyLength * 8));
    }
    if (!stretched) {
      let state = digest(START, 0, joined(salt, password));
      for (let i = 1; i < cost; i++) {
        if (keyLength < 32) state = digest(START, 0, octets(state, keyLength));
        else again(state, START, 0);
        if (!(i & 255) && performance.now() > until) await pause();
      }
      return octets(state, keyLength);
    }
    const pad = byte => {
      const state = START.slice(), block = new Uint8Array(64), view = new DataView(block.buffer);
      block.set(password);
      for (let i = 0; i < 64; i++) block[i] ^= byte;
      for (let i = 0; i < 16; i++) w[i] = view.getInt32(i * 4);
      compress(state);
      return state;
    };
    const inner = pad(54), outer = pad(92);
    const key = [];
    for (let block = 1; key.length < keyLength; block++) {
      const u = digest(outer, 64, octets(digest(inner, 64, joined(salt, [0, 0, 0, block])))), t = u.slice();
      for (let i = 1; i < cost; i++) {
        again(u, inner, 64);
        again(u, outer, 64);
        for (let j = 0; j < 8; j++) t[j] ^= u[j];
        if (!(i & 255) && performance.now() > until) await pause();
      }
      key.push(...octets(t));
    }
    return key.slice(0, keyLength);
  };

  // Calls of `crypto.subtle` take their time on the way: a few are under way at once.
  if (!stretched || cost < 20) subtle = 0;
  for (const count = subtle ? 4 : 1;; tried += count) {
    if (performance.now() > until) await pause();
    const keys = await Promise.all([...Array(count).keys()].map(i => derive(tried + i)));
    for (let i = 0; i < count; i++) {
      const derivedKey = hex(keys[i]);
      if (derivedKey.startsWith(keyPrefix)) return {counter: tried + i, derivedKey};
    }
  }
}
