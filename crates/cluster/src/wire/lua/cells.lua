-- What happens to cells. See `docs/format.md` for the fields of their hashes.
--
-- Numbers are doubles here: times, buckets and places are integers below 2^53 and exact. Counts may be greater: sums
-- that reach 2^53 are left to HINCRBY, and come as decimal text. `horizon` is set by the script that these lines are a
-- part of.

local call, floor, min, max, byte = redis.call, math.floor, math.min, math.max, string.byte
local EXACT = 9007199254740992
local GREATEST, LEAST = '9223372036854775807', '-9223372036854775808'
-- Of a hundred years, in milliseconds: more would overflow the server's clock.
local TTL_MAX = 3155760000000
local horizon = -EXACT

-- Commands are given at most so many arguments: more do not fit on Lua's stack.
local function in_parts(command, key, list)
  for from = 1, #list, 4000 do
    call(command, key, unpack(list, from, min(from + 3999, #list)))
  end
end

local function values(key, names)
  if #names <= 4000 then return call('HMGET', key, unpack(names)) end
  local all = {}
  for from = 1, #names, 4000 do
    local part = call('HMGET', key, unpack(names, from, min(from + 3999, #names)))
    for at = 1, #part do all[from + at - 1] = part[at] end
  end
  return all
end

-- Adds beyond 2^53, and stops at 2^63 - 1.
local function saturate(key, field, amount)
  local sum = redis.pcall('HINCRBY', key, field, amount)
  if type(sum) == 'table' and string.find(sum.err, 'overflow', 1, true) then
    call('HSET', key, field, GREATEST)
  end
end

-- Adds modulo 2^64, as a whole if it must.
local function wrap(key, field, amount)
  local sum = redis.pcall('HINCRBY', key, field, amount)
  if type(sum) ~= 'table' then return end
  if not string.find(sum.err, 'overflow', 1, true) then error(sum.err) end
  if string.sub(amount, 1, 1) == '-' then
    for _, step in ipairs({ GREATEST, 1, amount, GREATEST, 1 }) do call('HINCRBY', key, field, step) end
  else
    for _, step in ipairs({ LEAST, amount, LEAST }) do call('HINCRBY', key, field, step) end
  end
end

local function text(number)
  return type(number) == 'string' and number or string.format('%.0f', number)
end

-- The sum of what a field has and what is added, if it is exact; else nil.
local function exact(own, amount)
  own = tonumber(own)
  if own and type(amount) == 'number' then
    local sum = own + amount
    if sum > -EXACT and sum < EXACT and own > -EXACT and own < EXACT then return sum end
  end
end

-- Widens the times of a cell. Answers its times now, and its last time before; of an expired one nothing stays.
local function widen(key, expires, own_last, own_first, first, last, put)
  local before = tonumber(own_last)
  if before and expires(before) <= horizon then
    call('DEL', key)
    before = nil
  end
  local earliest = before and (tonumber(own_first) or before)
  if before then
    first, last = min(first, earliest), max(last, before)
  end
  if last ~= before then
    put[#put + 1] = 'l'
    put[#put + 1] = last
  end
  -- It is not there while it is the last.
  if first ~= last and (first ~= earliest or earliest == before) then
    put[#put + 1] = 'f'
    put[#put + 1] = first
  end
  return first, last, before
end

-- Counters over windows: { 1, slots, coarse slots, width, ratio, counters, longest width, its span, keep, ttl }.
local function window_expiry(form)
  return function(last)
    return max((floor(last / form[7]) + 1) * form[7] + form[8], last + form[9])
  end
end

-- Folds what is out of the fine tier into the coarse one, and removes what is out of that.
local function age(key, form, before, newest, add)
  local slots, coarse, ratio, counters = form[2], form[3], form[5], form[6]
  local own, to = floor(before / ratio), floor(newest / ratio)
  local gone = {}
  local function fold(bucket, counter, value)
    local folded = floor(bucket / ratio)
    if value and coarse > 0 and to - folded < coarse then
      value = tonumber(value) and (tonumber(value) < EXACT and tonumber(value) or value)
      if value then add((slots + folded % coarse) * counters + counter, value) end
    end
  end
  local fine_to, coarse_to = min(before, newest - slots), min(own, to - coarse)
  local aged = max(fine_to - (before - slots), 0) + (coarse > 0 and max(coarse_to - (own - coarse), 0) or 0)
  if aged * counters <= 64 then
    local names, buckets = {}, {}
    for bucket = before - slots + 1, fine_to do
      for counter = 0, counters - 1 do
        names[#names + 1] = bucket % slots * counters + counter
        buckets[#buckets + 1] = bucket
      end
    end
    if #names > 0 then
      local found = values(key, names)
      for at = 1, #names do
        if found[at] then
          gone[#gone + 1] = names[at]
          fold(buckets[at], names[at] % counters, found[at])
        end
      end
    end
    if coarse > 0 then
      for bucket = own - coarse + 1, coarse_to do
        for counter = 0, counters - 1 do
          gone[#gone + 1] = (slots + bucket % coarse) * counters + counter
        end
      end
    end
  else
    local all = call('HGETALL', key)
    for at = 1, #all, 2 do
      local place = tonumber(all[at])
      if place then
        local slot, counter = floor(place / counters), place % counters
        if slot < slots then
          local bucket = before - (before - slot) % slots
          if bucket <= fine_to then
            gone[#gone + 1] = place
            fold(bucket, counter, all[at + 1])
          end
        elseif own - (own - (slot - slots)) % coarse <= coarse_to then
          gone[#gone + 1] = place
        end
      end
    end
  end
  in_parts('HDEL', key, gone)
end

-- Adds rows to a cell: `fine` and `coarse` are bucket, counter, amount, and so on.
local function windows(key, form, first, last, fine_rows, coarse_rows)
  local slots, coarse, width, ratio, counters = form[2], form[3], form[4], form[5], form[6]
  local put, places, amounts, great = {}, {}, {}, {}
  local function add(place, amount)
    local sum = amounts[place]
    if not sum then
      places[#places + 1] = place
      amounts[place] = amount
      return
    end
    local both = exact(sum, amount)
    if both then
      amounts[place] = both
    else
      great[#great + 1] = { place, amount }
    end
  end
  local times = call('HMGET', key, 'l', 'f')
  local before
  first, last, before = widen(key, window_expiry(form), times[1], times[2], first, last, put)
  local newest = floor(last / width)
  if before and floor(before / width) < newest then age(key, form, floor(before / width), newest, add) end
  local folded = floor(newest / ratio)
  local function add_coarse(bucket, counter, amount)
    if coarse > 0 and folded - bucket < coarse then
      add((slots + bucket % coarse) * counters + counter, amount)
    end
  end
  for at = 1, #fine_rows, 3 do
    local bucket, counter, amount = fine_rows[at], fine_rows[at + 1], fine_rows[at + 2]
    if newest - bucket < slots then
      add(bucket % slots * counters + counter, amount)
    else
      add_coarse(floor(bucket / ratio), counter, amount)
    end
  end
  for at = 1, #coarse_rows, 3 do
    add_coarse(coarse_rows[at], coarse_rows[at + 1], coarse_rows[at + 2])
  end
  local found = before and #places > 0 and values(key, places) or {}
  for at = 1, #places do
    local place = places[at]
    local own, amount = found[at], amounts[place]
    if not own then
      put[#put + 1] = place
      put[#put + 1] = amount
    elseif tonumber(own) then
      local sum = exact(own, amount)
      if sum then
        put[#put + 1] = place
        put[#put + 1] = sum
      else
        great[#great + 1] = { place, amount }
      end
    end
  end
  in_parts('HSET', key, put)
  for at = 1, #great do saturate(key, great[at][1], text(great[at][2])) end
  call('PEXPIRE', key, form[10])
  return newest
end

-- Whether a fine bucket of a cell holds something, and whether it would be kept.
local function fine(key, form, bucket, last)
  local distance = floor(last / form[4]) - bucket
  if distance >= form[2] then return false, false end
  if distance < 0 then return false, true end
  return call('HGET', key, bucket % form[2] * form[6]), true
end

-- A value of an exact distinct count.
local function unique(key, form, pair, time)
  local bucket = floor(time / form[4])
  local last = tonumber(call('HGET', pair, 'l'))
  local is_fresh = true
  if last and window_expiry(form)(last) > horizon then
    local held, kept = fine(pair, form, bucket, last)
    is_fresh = kept and not held
  end
  local row = is_fresh and { bucket, 0, 1 } or {}
  if is_fresh then windows(pair, form, time, time, row, {}) end
  windows(key, form, time, time, row, {})
end

-- Whether one decimal number is less than another.
local function less(one, other)
  if #one < 16 and #other < 16 then return tonumber(one) < tonumber(other) end
  local minus, other_minus = byte(one) == 45, byte(other) == 45
  if minus ~= other_minus then return minus end
  if #one ~= #other then return (#one < #other) ~= minus end
  return one ~= other and (one < other) ~= minus
end

-- A track: { 2, keep, ttl, half-lives in a microsecond, ... }, of which the cell may have what the delta has:
-- { first, last, count, low and high part of the sum, least, greatest, decayed sums, ... }, with false for none.
local function track(key, form, delta)
  local first, last = delta[1], delta[2]
  local names = { 'l', 'f', 'c', 's', 'm', 'M' }
  local decays = #form - 3
  for at = 1, decays do names[6 + at] = 'd' .. at end
  local own = call('HMGET', key, unpack(names))
  local put, before = {}, nil
  first, last, before = widen(key, function(at) return at + form[2] end, own[1], own[2], first, last, put)
  if not before then own = {} end
  local great
  local count = exact(own[3] or 0, delta[3])
  if count then
    put[#put + 1], put[#put + 2] = 'c', count
  else
    great = text(delta[3])
  end
  local low = delta[4]
  if low then
    local sum = exact(own[4] or 0, low)
    if sum then
      put[#put + 1], put[#put + 2] = 's', sum
      low = nil
    end
  end
  if delta[6] and not (own[5] and not less(delta[6], own[5])) then
    put[#put + 1], put[#put + 2] = 'm', delta[6]
  end
  if delta[7] and not (own[6] and not less(own[6], delta[7])) then
    put[#put + 1], put[#put + 2] = 'M', delta[7]
  end
  for at = 1, decays do
    local rate = form[3 + at]
    local function shrunk(value, earlier)
      return last > earlier and value * 2 ^ ((last - earlier) * -rate) or value
    end
    local old = own[6 + at] and struct.unpack('<d', own[6 + at]) or 0
    local sum = shrunk(old, before or last) + shrunk(delta[7 + at], delta[2])
    sum = max(min(sum, 1.7976931348623157e308), -1.7976931348623157e308) + 0
    put[#put + 1], put[#put + 2] = 'd' .. at, struct.pack('<d', sum)
  end
  in_parts('HSET', key, put)
  if great then saturate(key, 'c', great) end
  if low then
    -- The low part stays far from overflowing: what is beyond 2^62 is carried.
    local sum = call('HINCRBY', key, 's', text(low))
    if sum >= 4611686018427387904 then
      call('HINCRBY', key, 's', '-4611686018427387904')
      saturate(key, 'S', 1)
    elseif sum <= -4611686018427387904 then
      call('HINCRBY', key, 's', '4611686018427387904')
      call('HINCRBY', key, 'S', -1)
    end
  end
  if delta[5] and delta[5] ~= 0 then saturate(key, 'S', text(delta[5])) end
  call('PEXPIRE', key, form[3])
end

-- What a classifier has learned: { 3, keep, ttl }. Its times are the last.
local function evidence(key, form, last, sums)
  local names = { 'b', 'g', 'w' }
  local own = call('HMGET', key, 'l', 'b', 'g', 'w')
  local before = tonumber(own[1])
  if before and before + form[2] <= horizon then
    call('DEL', key)
    before, own = nil, {}
  end
  local put, great = { 'l', max(last, before or last) }, {}
  for at, name in ipairs(names) do
    local sum = exact(own[at + 1] or 0, sums[at])
    if sum then
      put[#put + 1], put[#put + 2] = name, sum
    else
      great[#great + 1] = { name, text(sums[at]) }
    end
  end
  in_parts('HSET', key, put)
  for at = 1, #great do wrap(key, great[at][1], great[at][2]) end
  call('PEXPIRE', key, form[3])
end

-- An integer of 64 bits as two exact numbers: thousand millions, and the rest, which is not negative.
local function split(number)
  local is_minus = byte(number) == 45
  local digits = is_minus and string.sub(number, 2) or number
  local high, low = tonumber(string.sub(digits, 1, -10)) or 0, tonumber(string.sub(digits, -9))
  if is_minus then
    high, low = -high, -low
    if low < 0 then high, low = high - 1, low + 1e9 end
  end
  return { high, low }
end

local function join(number)
  local high, low = number[1], number[2]
  if high < 0 and low > 0 then high, low = high + 1, low - 1e9 end
  if high == 0 then return string.format('%.0f', low) end
  return string.format('%.0f%09.0f', high, math.abs(low))
end

local function is_less(one, other)
  return one[1] < other[1] or (one[1] == other[1] and one[2] < other[2])
end

-- The sum, at most and at least what fits into 64 bits.
local function plus(one, other)
  local high, low = one[1] + other[1], one[2] + other[2]
  if low >= 1e9 then high, low = high + 1, low - 1e9 end
  local sum = { high, low }
  if is_less({ 9223372036, 854775807 }, sum) then return { 9223372036, 854775807 } end
  if is_less(sum, { -9223372037, 145224193 }) then return { -9223372037, 145224193 } end
  return sum
end

-- The moment of a bucket: { 4 }. Of what is to happen: 1 take, 2 give back, 3 set, 4 add, 5 no less than.
local function bucket(key, what, now, one, other, is_counted)
  local text = call('HGET', key, 'm')
  local moment = text and split(text)
  -- In microseconds, rounded up.
  local function micros(at) return at[1] * 1e6 + math.ceil(at[2] / 1000) end
  if moment and micros(moment) <= horizon then
    call('DEL', key)
    moment = nil
  end
  now, one = split(now), split(one)
  local base = moment and is_less(now, moment) and moment or now
  local after
  if what == 1 then
    local most = plus(now, split(other))
    local taken = plus(base, one)
    if not is_less(most, taken) then
      after = taken
    elseif is_counted then
      after = is_less(most, base) and base or most
    end
  elseif what == 2 then
    if is_less(now, base) then
      after = plus(base, { -one[1] - (one[2] > 0 and 1 or 0), one[2] > 0 and 1e9 - one[2] or 0 })
      if is_less(after, now) then after = now end
    end
  elseif what == 3 then
    if moment or one[1] > 0 or one[2] > 0 then after = plus(now, one) end
  elseif what == 4 then
    after = plus(base, one)
  else
    after = moment and is_less(one, moment) and moment or one
  end
  if after then
    call('HSET', key, 'm', join(after))
    local ttl = max(min(floor((micros(after) - micros(now)) / 1000), TTL_MAX), 0) + 60000
    local left = call('PTTL', key)
    if left < ttl then call('PEXPIRE', key, ttl) end
  end
end

-- Joins two runs of registers: where they begin, and the rank of each.
local function registers(one, other)
  local one_at, other_at = byte(one), byte(other)
  local ranks = {}
  local from, to = min(one_at, other_at), max(one_at + #one, other_at + #other) - 2
  for at = from, to do
    local own = at >= one_at and byte(one, at - one_at + 2) or 0
    local more = at >= other_at and byte(other, at - other_at + 2) or 0
    ranks[#ranks + 1] = max(own, more)
  end
  return string.char(from, unpack(ranks))
end

-- An approximate distinct count: { 5, slots, runs, width, span, ttl }; `rows` are period, run, registers, and so on.
local function approx(key, form, first, last, rows)
  local slots, runs, width = form[2], form[3], form[4]
  local put = {}
  local times = call('HMGET', key, 'l', 'f')
  local before
  local function expires(at) return (floor(at / width) + 1) * width + form[5] end
  first, last, before = widen(key, expires, times[1], times[2], first, last, put)
  local newest = floor(last / width)
  if before and floor(before / width) < newest then
    local own, gone = floor(before / width), {}
    for _, name in ipairs(call('HKEYS', key)) do
      local place = tonumber(name)
      if place and newest - (own - (own - floor(place / runs)) % slots) >= slots then gone[#gone + 1] = name end
    end
    in_parts('HDEL', key, gone)
  end
  local places, added = {}, {}
  for at = 1, #rows, 3 do
    if newest - rows[at] < slots then
      local place = rows[at] % slots * runs + rows[at + 1]
      if added[place] then
        added[place] = registers(added[place], rows[at + 2])
      else
        places[#places + 1] = place
        added[place] = rows[at + 2]
      end
    end
  end
  local found = before and #places > 0 and values(key, places) or {}
  for at, place in ipairs(places) do
    put[#put + 1] = place
    put[#put + 1] = found[at] and registers(found[at], added[place]) or added[place]
  end
  in_parts('HSET', key, put)
  call('PEXPIRE', key, form[6])
end
