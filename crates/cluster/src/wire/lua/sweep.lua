
-- Cells whose whole fine tier has aged out: { horizon, forms, form of each key }. It is folded or removed, and what has aged out of the
-- coarse tier is removed; when they expire stays. Answers how many fields went.
local asked = cmsgpack.unpack(ARGV[1])

local function settle(key, form)
  local last = tonumber(call('HGET', key, 'l'))
  if not last then return 0 end
  local was, now = floor(last / form[4]), floor(asked[1] / form[4])
  if now - was < form[2] then return 0 end
  local had, put, great = call('HLEN', key), {}, {}
  sum_moved(key, form, was, was, now, {}, 1, put, great)
  in_parts('HSET', key, put)
  for at = 1, #great, 2 do saturate(key, great[at], text(great[at + 1])) end
  return had - call('HLEN', key)
end

local removed = 0
for at, key in ipairs(KEYS) do
  -- A cell that is none must not stop the others.
  local is_made, fields = pcall(settle, key, asked[2][asked[3][at]])
  if is_made then removed = removed + fields end
end
return removed
