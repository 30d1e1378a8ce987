-- The stored procedures: one call a message. `write`: the log is written with every transaction, the system syncs it.
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
      local _, first, last, count = old:unpack()
      if time > last then last = time end
      fixed:replace{ key, first, last, count + 1 }
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

-- Sums of a list {slot, amount, slot, amount, ...}; a slot is bucket * 6 + counter of a ten-minute bucket or a day.
local function sums(cell, bucket, out)
  local day = math.floor(bucket / 144)
  local n = #out
  for at = n + 1, n + 18 do out[at] = 0 end
  for at = 1, #cell, 2 do
    local slot, amount = cell[at], cell[at + 1]
    local own, column = math.floor(slot / 6), n + 1 + slot % 6
    if slot >= 4194304 then
      if own >= bucket - 6 then out[column] = out[column] + amount end
      if own >= bucket - 144 then out[column + 6] = out[column + 6] + amount end
      own = math.floor(own / 144)
    end
    if own >= day - 14 then out[column + 12] = out[column + 12] + amount end
  end
end

local function add(cell, slot, amount)
  for at = #cell - 1, 1, -2 do
    if cell[at] == slot then
      cell[at + 1] = cell[at + 1] + amount
      return false
    end
  end
  local n = #cell
  cell[n + 1], cell[n + 2] = slot, amount
  return true
end

-- With a new bucket, old ones are folded into their days.
local function fold(cell, bucket)
  local day, kept = math.floor(bucket / 144), {}
  for at = 1, #cell, 2 do
    local slot = cell[at]
    local own = math.floor(slot / 6)
    if slot < 4194304 then
      if own >= day - 14 then add(kept, slot, cell[at + 1]) end
    elseif own >= bucket - 144 then
      add(kept, slot, cell[at + 1])
    else
      add(kept, math.floor(own / 144) * 6 + slot % 6, cell[at + 1])
    end
  end
  return kept
end

local function must_fold(cell, bucket)
  for at = 1, #cell, 2 do
    local slot = cell[at]
    if slot >= 4194304 and slot < (bucket - 144) * 6 then return true end
  end
  return false
end

-- {key, list}.
function observe_windowed(bucket, keys, counters)
  local out = {}
  box.begin()
  for i = 1, #keys do
    local key = keys[i]
    local old = windowed:get(key)
    local cell = old == nil and {} or old[2]
    sums(cell, bucket, out)
    if add(cell, bucket * 6 + counters[i], 1) and must_fold(cell, bucket) then cell = fold(cell, bucket) end
    windowed:replace{ key, cell }
  end
  box.commit()
  return out
end

function read_windowed(bucket, keys)
  local out = {}
  for i = 1, #keys do
    local old = windowed:get(keys[i])
    sums(old == nil and {} or old[2], bucket, out)
  end
  return out
end

function memory_used()
  return box.slab.info().arena_used
end

-- Last, so that nobody connects before there is something to call.
box.schema.user.grant('guest', 'read,write,execute', 'universe', nil, { if_not_exists = true })
box.cfg{ listen = '127.0.0.1:' .. port }
