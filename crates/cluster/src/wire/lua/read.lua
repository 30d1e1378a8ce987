
-- The node's number, who wrote last, and all fields of each cell; and where it is asked for, how often places in sketches were
-- sighted: { cells, key, line, counters, key, ... }, where the key after the one that is named has the half before.
local asked = ARGV[1] and cmsgpack.unpack(ARGV[1])
local cells = asked and asked[1] or #KEYS - 2
local found = { redis.call('GET', KEYS[1]) or '0', redis.call('GET', KEYS[2]) or '' }
for at = 3, 2 + cells do found[at] = redis.pcall('HGETALL', KEYS[at]) end
if asked then
  local answers = {}
  for at = 2, #asked, 3 do
    local key, line = asked[at], asked[at + 1]
    local a, b, c, d = places_of(asked[at + 2])
    local now, had = min(counts_of(KEYS[key], line, a, b, c, d)), min(counts_of(KEYS[key + 1], line, a, b, c, d))
    answers[#answers + 1] = string.char(now + 16 * had)
  end
  found[3 + cells] = table.concat(answers)
end
return found
