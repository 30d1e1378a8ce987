
-- Sightings: the keys are who sends them, and the counters of each half and of the half before it.
-- { number, ttl of the number, a half, ... }; a half is { ttl, last counter, { line, counters, sightings, line, ... } }.
-- Answers a byte a place: what it then has in the half, and sixteen times what it has in the half before.
local batch = cmsgpack.unpack(ARGV[1])
local call, char = redis.call, string.char
local is_new = (tonumber(call('GET', KEYS[1])) or 0) < batch[1]
-- First of all: it is refused, and nothing is changed, where there is no memory.
if is_new then
  call('SET', KEYS[1], string.format('%.0f', batch[1]), 'PX', batch[2])
else
  -- A write, so that who waits for replicas waits for what was made before, too.
  call('PEXPIRE', KEYS[1], batch[2])
end

-- As one node counts: those counters are raised that are below the least of them with what is added to it. Answers that.
local function raise(key, line, sightings, a, b, c, d)
  local of_a, of_b, of_c, of_d = counts_of(key, line, a, b, c, d)
  local least = min(of_a, of_b, of_c, of_d)
  if not is_new or least == MOST then return least end
  local to = min(least + sightings, MOST)
  call('BITFIELD', key, 'SET', 'u4', '#' .. line * 128 + a, of_a < to and to or of_a,
    'SET', 'u4', '#' .. line * 128 + b, of_b < to and to or of_b,
    'SET', 'u4', '#' .. line * 128 + c, of_c < to and to or of_c,
    'SET', 'u4', '#' .. line * 128 + d, of_d < to and to or of_d)
  return to
end

local answers = {}
for half = 3, #batch do
  local key, before = KEYS[2 * half - 4], KEYS[2 * half - 3]
  local ttl, last, list = batch[half][1], batch[half][2], batch[half][3]
  if is_new and call('PEXPIRE', key, ttl) == 0 then
    -- All of it at once: a text that grows takes twice its length.
    call('BITFIELD', key, 'SET', 'u4', '#' .. last, 0)
    call('PEXPIRE', key, ttl)
  end
  for at = 1, #list, 3 do
    local line = list[at]
    local a, b, c, d = places_of(list[at + 1])
    local now = raise(key, line, list[at + 2], a, b, c, d)
    local had = min(counts_of(before, line, a, b, c, d))
    answers[#answers + 1] = char(now + 16 * had)
  end
end
return table.concat(answers)
