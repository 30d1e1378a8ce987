-- The stored procedures: one call a message. `write`: the log is written with every transaction, the system syncs it.
local ffi = require('ffi')
local port, memory = os.getenv('BENCH_PORT'), tonumber(os.getenv('BENCH_MEMORY'))

box.cfg{
  wal_mode = 'write',
  memtx_memory = memory,
  memtx_max_tuple_size = 1048576,
  log_level = 'warn',
}

box.once('spaces', function()
  local fixed = box.schema.space.create('fixed')
  fixed:create_index('key', { type = 'hash', parts = { { 1, 'unsigned' } } })
  local windowed = box.schema.space.create('windowed')
  windowed:create_index('key', { type = 'hash', parts = { { 1, 'unsigned' } } })
end)

local fixed, windowed = box.space.fixed, box.space.windowed

-- {key, first, last, count}. Old tuples are answered as they are, which needs no decoding here.
function observe_fixed(time, keys)
  local out = {}
  box.begin()
  for i = 1, #keys do
    local key = keys[i]
    local old = fixed:get(key)
    if old == nil then
      out[i] = box.NULL
      fixed:insert{ key, time, time, 1 }
    else
      out[i] = old
      -- Field by field, which LuaJIT compiles; `unpack` takes twice as long.
      local last = old[3]
      if time > last then last = time end
      fixed:replace{ key, old[2], last, old[4] + 1 }
    end
  end
  box.commit()
  return out
end

function read_fixed(_, keys)
  local out = {}
  for i = 1, #keys do out[i] = fixed:get(keys[i]) or box.NULL end
  return out
end

-- A windowed value is {key, text}, the text an array of {slot, amount}, 32 bits each; a slot is bucket * 6 + counter
-- of a ten-minute bucket or of a day. As an array in memory it is compiled by LuaJIT, and needs no decoding.
local ENTRIES = 4096
ffi.cdef('typedef struct { uint32_t slot, amount; } entry_t;')
local from, new = ffi.typeof('const entry_t *'), ffi.new('entry_t[?]', ENTRIES)
local sums, sums_of = ffi.new('uint32_t[?]', 18 * 4096), 0

local function sum(entries, count, bucket)
  local day = math.floor(bucket / 144)
  local at_hour = 18 * sums_of
  local at_day, at_all = at_hour + 6, at_hour + 12
  for at = at_hour, at_hour + 17 do sums[at] = 0 end
  for at = 0, count - 1 do
    local slot, amount = entries[at].slot, entries[at].amount
    local counter = slot % 6
    local own = (slot - counter) / 6
    if slot >= 4194304 then
      if own >= bucket - 6 then sums[at_hour + counter] = sums[at_hour + counter] + amount end
      if own >= bucket - 144 then sums[at_day + counter] = sums[at_day + counter] + amount end
      own = math.floor(own / 144)
    end
    if own >= day - 14 then sums[at_all + counter] = sums[at_all + counter] + amount end
  end
  sums_of = sums_of + 1
end

-- Adds to `new`, and answers how many entries it has now.
local function add(count, slot, amount)
  for at = count - 1, 0, -1 do
    if new[at].slot == slot then
      new[at].amount = new[at].amount + amount
      return count
    end
  end
  new[count].slot, new[count].amount = slot, amount
  return count + 1
end

-- Copies entries to `new`; what lies before the fine buckets that are kept is folded into its day.
local function fold(entries, count, bucket)
  local day, kept = math.floor(bucket / 144), 0
  for at = 0, count - 1 do
    local slot, amount = entries[at].slot, entries[at].amount
    local counter = slot % 6
    local own = (slot - counter) / 6
    if slot < 4194304 then
      if own >= day - 14 then kept = add(kept, slot, amount) end
    elseif own >= bucket - 144 then
      kept = add(kept, slot, amount)
    else
      kept = add(kept, math.floor(own / 144) * 6 + counter, amount)
    end
  end
  return kept
end

local function aged(entries, count, bucket)
  for at = 0, count - 1 do
    if entries[at].slot >= 4194304 and entries[at].slot < (bucket - 144) * 6 then return true end
  end
  return false
end

-- Answers 18 sums of 32 bits for each key, as one text.
function observe_windowed(bucket, keys, counters)
  sums_of = 0
  box.begin()
  for i = 1, #keys do
    local key = keys[i]
    local old = windowed:get(key)
    local text = old == nil and '' or old[2]
    local entries, count = ffi.cast(from, text), #text / 8
    sum(entries, count, bucket)
    ffi.copy(new, text, #text)
    local length = add(count, bucket * 6 + counters[i], 1)
    if length > count and aged(entries, count, bucket) then
      length = add(fold(entries, count, bucket), bucket * 6 + counters[i], 1)
    end
    windowed:replace{ key, ffi.string(new, length * 8) }
  end
  local out = ffi.string(sums, sums_of * 72)
  box.commit()
  return out
end

function read_windowed(bucket, keys)
  sums_of = 0
  for i = 1, #keys do
    local old = windowed:get(keys[i])
    local text = old == nil and '' or old[2]
    sum(ffi.cast(from, text), #text / 8, bucket)
  end
  return ffi.string(sums, sums_of * 72)
end

function memory_used()
  return box.slab.info().arena_used
end

-- Last, so that nobody connects before there is something to call.
box.schema.user.grant('guest', 'read,write,execute', 'universe', nil, { if_not_exists = true })
box.cfg{ listen = '127.0.0.1:' .. port }
