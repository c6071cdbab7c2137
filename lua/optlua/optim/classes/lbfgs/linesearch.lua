--- linesearch: a point on a line where a function has fallen enough and is flat enough (strong Wolfe conditions): Nocedal &
--- Wright, "Numerical Optimization" (2006), algorithms 3.5 and 3.6, with the bounds and steps of PyTorch's (minFunc's).
--
-- A point is a table { t =, f =, slope = } with what else the function that finds it puts there.
local FALL, FLAT = 1e-4, 0.9 -- c1, c2

-- The minimum between two bounds of the cubic with the values and slopes of two points, or the middle.
local function interpolate(a, b, low, high)
  if a.t > b.t then a, b = b, a end
  local d1 = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
  local square = d1 * d1 - a.slope * b.slope
  local d2 = square >= 0 and math.sqrt(square) or 0 / 0
  local t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
  if t ~= t then return (low + high) / 2 end
  return math.min(math.max(t, low), high)
end

local function is_high(point, start) return point.f > start.f + FALL * point.t * start.slope end
local function is_flat(point, start) return math.abs(point.slope) <= -FLAT * start.slope end

-- Walks until two points have what is looked for between them, or one is it; then the second is nil.
local function bracket(at, start, t, limit)
  local before, point, count = start, at(t), 0
  while count < limit do
    if is_high(point, start) or count > 1 and point.f >= before.f then return before, point, count end
    if is_flat(point, start) then return point, nil, count end
    if point.slope >= 0 then return before, point, count end
    t = interpolate(before, point, point.t + 0.01 * (point.t - before.t), 10 * point.t)
    before, point, count = point, at(t), count + 1
  end
  return start, point, count
end

-- Where to look between two points, away from both where looking close to one did not help: t, and whether it is close to one.
local function choose(a, b, was_close)
  local low, high = math.min(a.t, b.t), math.max(a.t, b.t)
  local t, margin = interpolate(a, b, low, high), 0.1 * (high - low)
  if math.min(high - t, t - low) >= margin then return t, false end
  if not (was_close or t >= high or t <= low) then return t, true end
  return math.abs(t - high) < math.abs(t - low) and high - margin or low + margin, false
end

-- Narrows a pair of points down.
local function zoom(at, start, pair, count, opts)
  local low, high = 1, 2
  if pair[1].f > pair[2].f then low, high = 2, 1 end
  local is_close = false
  while count < opts.limit and math.abs(pair[2].t - pair[1].t) * opts.size >= opts.tolerance do
    local t
    t, is_close = choose(pair[1], pair[2], is_close)
    local point = at(t)
    count = count + 1
    if is_high(point, start) or point.f >= pair[low].f then
      pair[high] = point
      if pair[1].f <= pair[2].f then low, high = 1, 2 else low, high = 2, 1 end
    else
      if is_flat(point, start) then return point, count end
      if point.slope * (pair[high].t - pair[low].t) >= 0 then pair[high] = pair[low] end
      pair[low] = point
    end
  end
  return pair[low], count
end

--- Looks for a point that satisfies the strong Wolfe conditions; the best that was found where there are no more evaluations.
---@param at fun(t: number): table the point at t
---@param start table the point at 0; its slope is below 0
---@param t number where to look first
---@param opts { limit: integer, size: number, tolerance: number } limit: of evaluations, but for the first; size: of the
---  direction; tolerance: two points whose distance times size is below it are one
---@return table point
---@return integer evaluations
local function search(at, start, t, opts)
  local a, b, count = bracket(at, start, t, opts.limit)
  if b then a, count = zoom(at, start, { a, b }, count, opts) end
  return a, count + 1
end

return search
