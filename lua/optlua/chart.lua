--- chart: curves as text for the terminal, and as SVG files.
local blame = require "optlua.blame"
local files = require "optlua.files"

local chart = {}

---@class optlua.Line a list of numbers
---@field name string
---@field x number[]? where they are, rising; default: 0, 1, 2 …

local function range(lines)
  local low, high = math.huge, -math.huge
  for _, line in ipairs(lines) do
    for _, value in ipairs(line) do
      if value == value and math.abs(value) < math.huge then
        low, high = math.min(low, value), math.max(high, value)
      end
    end
  end
  if low > high then return 0, 1 end
  if low == high then low, high = math.min(low, 0), math.max(high, 0) end
  if low == high then high = 1 end
  return low, high
end

local function x_at(line, k) return line.x and line.x[k] or k - 1 end

-- From the first to the last place of all lines.
local function width_of(lines)
  local first, last = math.huge, -math.huge
  for _, line in ipairs(lines) do
    if #line > 0 then first, last = math.min(first, x_at(line, 1)), math.max(last, x_at(line, #line)) end
  end
  if first > last then return 0, 0 end
  return first, last
end

-- Text -----------------------------------------------------------------------------------------------------

local MARKS = { "*", "+", "o", "x", "#", "@", "%", "&" }

local function mark(k) return MARKS[(k - 1) % #MARKS + 1] end

-- Where a value lies between the lowest, 0, and the highest, 1; halves do not overflow.
local function share(scale, value)
  local span = scale.high - scale.low
  if span < math.huge then return (value - scale.low) / span end
  return (value / 2 - scale.low / 2) / (scale.high / 2 - scale.low / 2)
end

-- The value of a line that is nearest to x, from the k-th on, and which it is; nil where the line is not.
local function nearest(line, x, k)
  while k < #line and math.abs(x_at(line, k + 1) - x) <= math.abs(x_at(line, k) - x) do k = k + 1 end
  return line[k], k
end

-- Puts the marks of a line into the cells that it goes through.
local function mark_cells(rows, line, symbol, width, scale)
  local height, step = #rows, (scale.last - scale.first) / (width - 1)
  local k = 1
  for c = 1, width do
    local x, value = scale.first + (c - 1) * step, nil
    if #line > 0 and x >= x_at(line, 1) - step / 2 and x <= x_at(line, #line) + step / 2 then value, k = nearest(line, x, k) end
    if value and value == value and math.abs(value) < math.huge then
      local r = height - math.floor(share(scale, value) * (height - 1) + 0.5)
      rows[r][c] = symbol
    end
  end
end

-- The cells of a grid of height rows that lines go through; the first line lies on top.
local function plot(lines, width, height, scale)
  local rows = {}
  for r = 1, height do
    rows[r] = {}
    for c = 1, width do rows[r][c] = " " end
  end
  for k = #lines, 1, -1 do mark_cells(rows, lines[k], mark(k), width, scale) end
  return rows
end

local function scale_of(lines)
  local low, high = range(lines)
  local first, last = width_of(lines)
  return { low = low, high = high, first = first, last = last }
end

--- Curves as text: a grid with its scale, and a legend.
---@param lines optlua.Line[]
---@param width integer of the grid, in characters
---@param height integer
---@return string
function chart.text(lines, width, height)
  local scale = scale_of(lines)
  local out = {}
  for r, cells in ipairs(plot(lines, width, height, scale)) do
    local label = r == 1 and scale.high or r == height and scale.low or nil
    out[#out + 1] = ("%10s |%s"):format(label and ("%.4g"):format(label) or "", (table.concat(cells):gsub("%s+$", "")))
  end
  local first, last = ("%.14g"):format(scale.first), ("%.14g"):format(scale.last)
  out[#out + 1] = (" "):rep(11) .. "+" .. ("-"):rep(width)
  out[#out + 1] = (" "):rep(12) .. first .. (" "):rep(math.max(1, width - #first - #last)) .. last
  for k, line in ipairs(lines) do out[#out + 1] = (" "):rep(12) .. mark(k) .. " " .. line.name end
  return table.concat(out, "\n")
end

-- SVG ------------------------------------------------------------------------------------------------------

local COLOURS = { "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f" }
local WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 400, 70, 20, 20, 40

local function escape(text) return (text:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" })) end

local function text_at(x, y, anchor, text)
  return ('<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>'):format(x, y, anchor, escape(text))
end

local function polyline(line, colour, x_of, y_of)
  local points = {}
  for k, value in ipairs(line) do
    if value == value and math.abs(value) < math.huge then
      points[#points + 1] = ("%.2f,%.2f"):format(x_of(x_at(line, k)), y_of(value))
    end
  end
  return ('<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>'):format(colour, table.concat(points, " "))
end

--- Curves as an SVG document.
---@param lines optlua.Line[]
---@return string
function chart.svg(lines)
  local scale = scale_of(lines)
  local span = math.max(scale.last - scale.first, 1)
  local function x_of(x) return LEFT + (WIDTH - LEFT - RIGHT) * (x - scale.first) / span end
  local function y_of(y) return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share(scale, y) end
  local out = {
    ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">'):format(WIDTH, HEIGHT),
    ('<rect width="%d" height="%d" fill="white"/>'):format(WIDTH, HEIGHT),
  }
  for k = 0, 4 do
    local y, x = scale.low * (1 - k / 4) + scale.high * k / 4, scale.first + (scale.last - scale.first) * k / 4
    out[#out + 1] = ('<line x1="%d" x2="%d" y1="%.2f" y2="%.2f" stroke="#dddddd"/>'):format(LEFT, WIDTH - RIGHT, y_of(y), y_of(y))
    out[#out + 1] = text_at(LEFT - 6, y_of(y) + 4, "end", ("%.4g"):format(y))
    out[#out + 1] = text_at(x_of(x), HEIGHT - BOTTOM + 18, "middle", ("%.4g"):format(x))
  end
  for k, line in ipairs(lines) do
    local colour = COLOURS[(k - 1) % #COLOURS + 1]
    out[#out + 1] = polyline(line, colour, x_of, y_of)
    out[#out + 1] = ('<g fill="%s">%s</g>'):format(colour, text_at(WIDTH - RIGHT - 4, TOP + 14 * k, "end", line.name))
  end
  out[#out + 1] = "</svg>\n"
  return table.concat(out, "\n")
end

--- Draws curves as opts say: text of `width` x `height`; with `path`, an SVG file as well.
---@param lines optlua.Line[]
---@param opts { width: integer, height: integer, path?: string }
---@return string # the text
function chart.draw(lines, opts)
  if opts.path then
    local written, problem = files.write(opts.path, chart.svg(lines))
    if not written then blame("the chart: " .. problem) end
  end
  return chart.text(lines, opts.width, opts.height)
end

return chart
