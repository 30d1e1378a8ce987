-- Counters of admission sketches: of a line 128 of four bits each, in four parts of 16 bytes. `counters` has five bits for each
-- part, the first part's lowest. See `docs/internals/format.md`.

local floor, min, byte = math.floor, math.min, string.byte
local MOST = 15

-- The place in its line, from nought, of the counter of each part.
local function places_of(counters)
  local rest = floor(counters / 32)
  local rest_more = floor(rest / 32)
  return counters % 32, 32 + rest % 32, 64 + rest_more % 32, 96 + floor(rest_more / 32)
end

local function count_of(text, place)
  local octet = byte(text, floor(place / 2) + 1) or 0
  return place % 2 == 0 and floor(octet / 16) or octet % 16
end

-- The counters at these places. What is no text of counters has none.
local function counts_of(key, line, a, b, c, d)
  local text = redis.pcall('GETRANGE', key, line * 64, line * 64 + 63)
  if type(text) ~= 'string' or text == '' then return 0, 0, 0, 0 end
  return count_of(text, a), count_of(text, b), count_of(text, c), count_of(text, d)
end
