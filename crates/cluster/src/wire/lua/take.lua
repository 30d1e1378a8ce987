
-- A round: the first key is what is remembered of the node's last one, the others are cells.
-- { number, horizon, ttl of what is remembered, forms, asks }; an ask is { form, key, what, ... }.
-- What is answered, and remembered: the number, and of each ask what its cell had before, with commas between.
local round = cmsgpack.unpack(ARGV[1])
local number = round[1]
local remembered = call('GET', KEYS[1])
local has = remembered and tonumber(string.match(remembered, '^%d+')) or 0
if has >= number then
  -- A write, so that who waits for replicas waits for what was made before, too.
  call('PEXPIRE', KEYS[1], round[3])
  return remembered
end
horizon = round[2]
-- First of all: it is refused, and nothing is changed, where there is no memory.
call('SET', KEYS[1], text(number), 'PX', round[3])

-- What was used in the sub-windows of a limit, and given back, by slot. Nothing of a cell that has expired.
local function held(key, form)
  local all = call('HGETALL', key)
  local cell = { used = {}, back = {} }
  for at = 1, #all, 2 do
    local place = tonumber(all[at])
    if place then
      local amounts = place % 2 == 0 and cell.used or cell.back
      amounts[floor(place / 2)] = min(tonumber(all[at + 1]), EXACT)
    elseif all[at] == 'l' then
      cell.last = tonumber(all[at + 1])
    elseif all[at] == 'f' then
      cell.first = tonumber(all[at + 1])
    end
  end
  if not cell.last or window_expires(form, cell.last) <= horizon then return { used = {}, back = {} } end
  cell.first = cell.first or cell.last
  return cell
end

-- The sub-window that a slot has.
local function bucket_of(cell, form, slot)
  local newest = floor(cell.last / form[4])
  return newest - (newest - slot) % form[2]
end

-- What is used in the sub-windows that a window reaches.
local function sum(cell, form, window, now)
  local from, to = floor((now - window) / form[4]), floor(now / form[4])
  local function total(amounts)
    local all = 0
    for slot, amount in pairs(amounts) do
      local number = bucket_of(cell, form, slot)
      if number >= from and number <= to then all = min(all + amount, EXACT) end
    end
    return all
  end
  return cell.last and max(total(cell.used) - total(cell.back), 0) or 0
end

-- The product of two integers below 2^53, in limbs of 18 bits, the least first.
local function product(one, other)
  local function limbs(whole)
    return { whole % 262144, floor(whole / 262144) % 262144, floor(whole / 68719476736) }
  end
  local a, b, all = limbs(one), limbs(other), { 0, 0, 0, 0, 0 }
  for i = 1, 3 do
    for j = 1, 3 do all[i + j - 1] = all[i + j - 1] + a[i] * b[j] end
  end
  for at = 1, 4 do
    all[at + 1] = all[at + 1] + floor(all[at] / 262144)
    all[at] = all[at] % 262144
  end
  return all
end

local function is_at_most(one, other)
  for at = 5, 1, -1 do
    if one[at] ~= other[at] then return one[at] < other[at] end
  end
  return true
end

-- Whether so much is left of a limit. The share of the oldest sub-window that still lies in the window counts, rounded
-- up, or all of it.
local function is_within(ask, whole, newer, now, width)
  local cost, limit, window, is_interpolated = tonumber(ask[7]), ask[8], ask[5], ask[10]
  if not is_interpolated then return whole + cost <= limit end
  local oldest, left = max(whole - newer, 0), width - (now - window) % width
  local rest = limit - cost - newer
  if rest < 0 then return false end
  return oldest <= rest or is_at_most(product(oldest, left), product(rest, width))
end

-- Gives back of the sub-window of a time, or of the oldest first: never more than is used there.
local function give_back(key, form, cell, window, now, amount, taken)
  local oldest, only = floor((now - window) / form[4]), taken and floor(taken / form[4])
  local buckets, slots = {}, {}
  for slot in pairs(cell.used) do
    local number = bucket_of(cell, form, slot)
    if number >= oldest and (not only or number == only) then
      buckets[#buckets + 1] = number
      slots[number] = slot
    end
  end
  table.sort(buckets)
  local rows = {}
  for _, number in ipairs(buckets) do
    local slot = slots[number]
    local back = min(max(cell.used[slot] - (cell.back[slot] or 0), 0), amount)
    if back > 0 then
      amount = amount - back
      rows[#rows + 1], rows[#rows + 2] = place_of(form, number, 1), back
    end
  end
  if #rows > 0 then windows(key, form, text(cell.last), text(cell.last), rows, 1) end
end

-- Of a limit over windows: { form, key, what, time, window, its newer part or false, ... }, where what is 0 nothing,
-- 1 take (cost, limit, whether what is refused counts, whether it is interpolated), 2 give back (amount, time or false)
-- or 3 count (counter, amount, and so on). What is taken or given back is so as of the latest event, if that is later.
local function of_windows(key, form, ask)
  local what, time, width = ask[3], ask[4], form[4]
  local cell = held(key, form)
  local now = (what == 1 or what == 2) and cell.last and max(time, cell.last) or time
  local whole = sum(cell, form, ask[5], now)
  local newer = ask[6] and sum(cell, form, ask[6], now) or 0
  if what == 1 then
    if ask[7] ~= 0 and (ask[9] or is_within(ask, whole, newer, now, width)) then
      windows(key, form, text(now), text(now), { place_of(form, floor(now / width), 0), ask[7] }, 1)
    end
  elseif what == 2 then
    if cell.last then give_back(key, form, cell, ask[5], now, min(tonumber(ask[7]), EXACT), ask[8]) end
  elseif what == 3 then
    local rows = {}
    for at = 7, #ask, 2 do
      rows[#rows + 1], rows[#rows + 2] = place_of(form, floor(time / width), ask[at]), ask[at + 1]
    end
    windows(key, form, text(time), text(time), rows, 1)
  end
  if not cell.last then return '-' end
  return table.concat({ text(cell.first), text(cell.last), text(whole), text(newer) }, ' ')
end

-- Of a bucket: { form, key, what, now, ... }, the rest as its changes have it.
local function of_bucket(key, ask)
  local moment = call('HGET', key, 'm')
  if moment then
    local parts = split(moment)
    if parts[1] * 1e6 + math.ceil(parts[2] / 1000) <= horizon then moment = nil end
  end
  if ask[3] ~= 0 then bucket(key, ask[3], ask[4], ask[5], ask[6], ask[7]) end
  return moment or '-'
end

local answers = { text(number) }
for at, ask in ipairs(round[5]) do
  local form, key = round[4][ask[1]], KEYS[ask[2]]
  -- A cell that is none must not stop the others.
  local is_done, answer = pcall(form[1] == 4 and of_bucket or of_windows, key, form[1] == 4 and ask or form, ask)
  answers[at + 1] = is_done and answer or '!'
end
local answer = table.concat(answers, ',')
call('SET', KEYS[1], answer, 'PX', round[3])
return answer
