-- What happens to cells. See `docs/internals/format.md` for the fields of their hashes.
--
-- Numbers are doubles here: times, buckets and places are integers below 2^53 and exact. Counts may be greater: sums
-- that reach 2^53 are left to HINCRBY, and come as decimal text. `horizon` is set by the script that these lines are a
-- part of.

local call, floor, min, max, byte = redis.call, math.floor, math.min, math.max, string.byte
local tonumber, unpack = tonumber, unpack
local EXACT = 9007199254740992
local GREATEST, LEAST = '9223372036854775807', '-9223372036854775808'
-- Of a hundred years, in milliseconds: more would overflow the server's clock.
local TTL_MAX = 3155760000000
local horizon = -EXACT

-- Commands are given at most so many arguments: more do not fit on Lua's stack.
local function in_parts(command, key, list)
  if #list <= 4000 then
    if #list > 0 then call(command, key, unpack(list)) end
    return
  end
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

-- Widens the times of a cell, which come as texts, to those of what is added: `before` is its last time as a number, if it
-- has one. Answers its last time now.
local function widen(before, own, first, last, put)
  local to = tonumber(last)
  local from = first == last and to or tonumber(first)
  if not before then
    put[1], put[2] = 'l', last
    if from ~= to then put[3], put[4] = 'f', first end
    return to
  end
  if to > before then put[1], put[2] = 'l', last end
  -- It is not there while it is the last.
  if from < before then
    if not own[2] or from < tonumber(own[2]) then put[#put + 1], put[#put + 2] = 'f', first end
  elseif not own[2] and to > before then
    put[3], put[4] = 'f', own[1]
  end
  return max(to, before)
end

-- Counts in rings of buckets: { 1, slots, coarse slots, width, ratio, counters, longest width, its span, keep, ttl,
-- whether it begins anew }.
local function window_expires(form, last)
  return max((floor(last / form[7]) + 1) * form[7] + form[8], last + form[9])
end

-- The place of a count, as a field has it.
local function place_of(form, bucket, counter)
  return text(bucket % form[2] * form[6] + counter)
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
      if value then add(text((slots + folded % coarse) * counters + counter), value) end
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

-- Rows that were laid out for a cell whose newest bucket is an earlier one than that of this cell: they are kept as far
-- as it keeps them, and come into the coarse tier where they are out of the fine one.
local function moved(form, rows, from, then_newest, newest, add)
  local slots, coarse, ratio, counters = form[2], form[3], form[5], form[6]
  local folded, then_folded = floor(newest / ratio), floor(then_newest / ratio)
  for at = from, #rows, 2 do
    local place = tonumber(rows[at])
    local slot, counter = floor(place / counters), place % counters
    local into
    if slot < slots then
      local bucket = then_newest - (then_newest - slot) % slots
      if newest - bucket < slots then add(rows[at], rows[at + 1]) else into = floor(bucket / ratio) end
    else
      into = then_folded - (then_folded - (slot - slots)) % coarse
    end
    if into and coarse > 0 and folded - into < coarse then
      add(text((slots + into % coarse) * counters + counter), rows[at + 1])
    end
  end
end

-- Adds what a cell has at a place and what is added to it, to what is put there, or to what is too great for that.
local function sum(place, have, amount, put, great)
  if not have then
    put[#put + 1], put[#put + 2] = place, amount
  elseif tonumber(have) then
    local both = exact(have, amount)
    if both then
      put[#put + 1], put[#put + 2] = place, both
    else
      great[#great + 1], great[#great + 2] = place, amount
    end
  end
end

-- The same for rows of a cell whose buckets change their places: it is aged first.
local function sum_moved(key, form, before, last, newest, rows, from, put, great)
  local places, amounts = {}, {}
  local function add(place, amount)
    local other = amounts[place]
    if other then
      local both = exact(other, amount)
      if both then
        amounts[place] = both
      else
        great[#great + 1], great[#great + 2] = place, amount
      end
    else
      places[#places + 1], amounts[place] = place, amount
    end
  end
  if before < newest then age(key, form, before, newest, add) end
  moved(form, rows, from, last, newest, add)
  local found = #places > 0 and values(key, places)
  for at, place in ipairs(places) do sum(place, found[at], amounts[place], put, great) end
end

-- Adds rows to a cell: place and amount, and so on, as they lie in a cell whose last event is `last`; they begin at
-- `from` in their list. `own` is what the cell has of its times and these places, where that is known. Answers its newest
-- bucket.
local function windows(key, form, first, last, rows, from, own)
  local width = form[4]
  if not own then
    -- Most cells have seen one counter in one bucket.
    if #rows == from + 1 then
      own = call('HMGET', key, 'l', 'f', rows[from])
    else
      local names = { 'l', 'f' }
      for at = from, #rows, 2 do names[#names + 1] = rows[at] end
      own = values(key, names)
    end
  end
  local before = tonumber(own[1])
  if before and before <= horizon and window_expires(form, before) <= horizon then
    call('DEL', key)
    before = nil
  end
  local put = {}
  local newest = floor(widen(before, own, first, last, put) / width)
  local count = #put
  if not before then
    for at = from, #rows do put[count + 1 + at - from] = rows[at] end
    in_parts('HSET', key, put)
  else
    local great = {}
    local was = floor(before / width)
    -- What is added may end before the cell does.
    local is = put[1] == 'l' and newest or floor(tonumber(last) / width)
    if was == is then
      for at = from, #rows, 2 do
        local have, amount = own[3 + (at - from) / 2], rows[at + 1]
        amount = not have and amount or exact(have, amount)
        if amount then
          put[count + 1], put[count + 2] = rows[at], amount
          count = count + 2
        elseif tonumber(have) then
          great[#great + 1], great[#great + 2] = rows[at], rows[at + 1]
        end
      end
    else
      sum_moved(key, form, was, is, newest, rows, from, put, great)
    end
    in_parts('HSET', key, put)
    for at = 1, #great, 2 do saturate(key, great[at], text(great[at + 1])) end
  end
  if form[11] or not before then call('PEXPIRE', key, form[10]) end
  return newest
end

-- Whether a fine bucket of a cell holds something, and whether it would be kept.
local function fine(key, form, bucket, last)
  local distance = floor(last / form[4]) - bucket
  if distance >= form[2] then return false, false end
  if distance < 0 then return false, true end
  return call('HGET', key, bucket % form[2] * form[6]), true
end

-- Counts one, if the mark of a pair is not there yet, and leaves it.
local function unique(key, form, pair, time)
  local bucket = floor(tonumber(time) / form[4])
  local row = { place_of(form, bucket, 0), 1 }
  local own = call('HMGET', pair, 'l', 'f', row[1])
  local last = tonumber(own[1])
  local is_fresh = true
  if last and window_expires(form, last) > horizon then
    local distance = floor(last / form[4]) - bucket
    is_fresh = distance < form[2] and (distance < 0 or not own[3])
  end
  if not is_fresh then row = {} end
  if is_fresh then windows(pair, form, time, time, row, 1, own) end
  windows(key, form, time, time, row, 1)
end

-- Whether one decimal number is less than another.
local function less(one, other)
  if #one < 16 and #other < 16 then return tonumber(one) < tonumber(other) end
  local minus, other_minus = byte(one) == 45, byte(other) == 45
  if minus ~= other_minus then return minus end
  if #one ~= #other then return (#one < #other) ~= minus end
  return one ~= other and (one < other) ~= minus
end

-- Totals: { 2, keep, ttl, whether it begins anew, half-lives in a microsecond, ... }, of which the cell may have what the delta has:
-- { first, last, count, low and high part of the sum, least, greatest, decayed sums, ... }, with false for none.
local function totals(key, form, delta)
  local first, last = delta[1], delta[2]
  local names = { 'l', 'f', 'c', 's', 'm', 'M' }
  local decays = #form - 4
  for at = 1, decays do names[6 + at] = 'd' .. at end
  local own = call('HMGET', key, unpack(names))
  local put, before = {}, tonumber(own[1])
  if before and before + form[2] <= horizon then
    call('DEL', key)
    before, own = nil, {}
  end
  local then_last = tonumber(last)
  last = widen(before, own, first, last, put)
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
    local rate = form[4 + at]
    local function shrunk(value, earlier)
      return last > earlier and value * 2 ^ ((last - earlier) * -rate) or value
    end
    local old = own[6 + at] and struct.unpack('<d', own[6 + at]) or 0
    local sum = shrunk(old, before or last) + shrunk(delta[7 + at], then_last)
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
  if form[4] or not before then call('PEXPIRE', key, form[3]) end
end

-- Three sums, which wrap: { 3, keep, ttl, whether it begins anew }. Its times are the last.
local function wrapping_sums(key, form, last, sums)
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
  if form[4] or not before then call('PEXPIRE', key, form[3]) end
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

-- A moment: { 4 }. Of what is to happen: 1 take, 2 give back, 3 set, 4 add, 5 no less than.
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

-- Whether one text is less than another by its bytes, whatever the server's locale.
local function is_less_text(one, other)
  for at = 1, min(#one, #other) do
    local a, b = byte(one, at), byte(other, at)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- A value: { 6, keep, ttl, whether it begins anew }. The latest stays, and of two at one time the greater.
local function register(key, form, last, value)
  local own = call('HMGET', key, 'l', 'v')
  local before, time = tonumber(own[1]), tonumber(last)
  if before and before + form[2] <= horizon then
    call('DEL', key)
    before = nil
  end
  if not before or before < time or (before == time and is_less_text(own[2] or '', value)) then
    call('HSET', key, 'l', last, 'v', value)
  end
  if form[4] or not before then call('PEXPIRE', key, form[3]) end
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

-- Runs of registers: { 5, slots, runs, width, span, ttl, whether it begins anew };
-- `rows` are period, run, registers, and so on.
local function ranks_of(key, form, first, last, rows)
  local slots, runs, width = form[2], form[3], form[4]
  local put = {}
  local times = call('HMGET', key, 'l', 'f')
  local before = tonumber(times[1])
  if before and (floor(before / width) + 1) * width + form[5] <= horizon then
    call('DEL', key)
    before = nil
  end
  local newest = floor(widen(before, times, first, last, put) / width)
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
  if form[7] or not before then call('PEXPIRE', key, form[6]) end
end
