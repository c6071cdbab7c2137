--- chart: curves as text for the terminal, and as SVG files.
local blame = require "optlua.blame"

local chart = {}

---@class optlua.Line a list of numbers, at 0, 1, 2 …
---@field name string

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

local function longest(lines)
  local count = 1
  for _, line in ipairs(lines) do count = math.max(count, #line) end
  return count
end

-- Text -----------------------------------------------------------------------------------------------------

local MARKS = { "*", "+", "o", "x", "#", "@", "%", "&" }

local function mark(k) return MARKS[(k - 1) % #MARKS + 1] end

-- The cells of a grid of height rows that lines go through; the first line lies on top.
local function plot(lines, width, height, low, high, count)
  local rows = {}
  for r = 1, height do
    rows[r] = {}
    for c = 1, width do rows[r][c] = " " end
  end
  for k = #lines, 1, -1 do
    for c = 1, width do
      local at = count == 1 and 1 or 1 + math.floor((c - 1) / (width - 1) * (count - 1) + 0.5)
      local value = lines[k][at]
      if value and value == value and math.abs(value) < math.huge then
        local r = height - math.floor((value - low) / (high - low) * (height - 1) + 0.5)
        rows[r][c] = mark(k)
      end
    end
  end
  return rows
end

--- Curves as text: a grid with its scale, and a legend.
---@param lines optlua.Line[]
---@param width integer of the grid, in characters
---@param height integer
---@return string
function chart.text(lines, width, height)
  local low, high = range(lines)
  local count = longest(lines)
  local out = {}
  for r, cells in ipairs(plot(lines, width, height, low, high, count)) do
    local label = r == 1 and high or r == height and low or nil
    out[#out + 1] = ("%10s |%s"):format(label and ("%.4g"):format(label) or "", (table.concat(cells):gsub("%s+$", "")))
  end
  local last = tostring(count - 1)
  out[#out + 1] = (" "):rep(11) .. "+" .. ("-"):rep(width)
  out[#out + 1] = (" "):rep(12) .. "0" .. (" "):rep(width - 1 - #last) .. last
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
      points[#points + 1] = ("%.2f,%.2f"):format(x_of(k - 1), y_of(value))
    end
  end
  return ('<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>'):format(colour, table.concat(points, " "))
end

--- Curves as an SVG document.
---@param lines optlua.Line[]
---@return string
function chart.svg(lines)
  local low, high = range(lines)
  local count = longest(lines)
  local function x_of(x) return LEFT + (WIDTH - LEFT - RIGHT) * x / math.max(count - 1, 1) end
  local function y_of(y) return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - low) / (high - low) end
  local out = {
    ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">'):format(WIDTH, HEIGHT),
    ('<rect width="%d" height="%d" fill="white"/>'):format(WIDTH, HEIGHT),
  }
  for k = 0, 4 do
    local y, x = low + (high - low) * k / 4, (count - 1) * k / 4
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
    local file, problem = io.open(opts.path, "w")
    if not file then blame("the chart cannot be written: " .. problem) end
    local written, why = file:write(chart.svg(lines))
    local closed, why_closed = file:close()
    if not (written and closed) then blame("the chart cannot be written: " .. (why or why_closed)) end
  end
  return chart.text(lines, opts.width, opts.height)
end

return chart
