--- progress: a bar on stderr with rate and remaining time. On a terminal it redraws one line; elsewhere
--- it prints whole lines, every few seconds.
local host = require("optlua.core").hidden
local optlua = require "optlua"
local options = require "optlua.options"

local REDRAW, REPRINT = 0.1, 5 -- seconds between two lines, on a terminal and elsewhere
local WIDTH = 24               -- of the bar, in columns

---@class optlua.Progress
local Progress = {}
Progress.__index = Progress

--- Makes a bar.
---@param total? integer how many steps there will be; nil: unknown
---@param opts? { label?: string, unit?: string } unit: of a step, default "it"
---@return optlua.Progress
local function progress(total, opts)
  opts = options.check("optlua.progress", opts, { label = "", unit = "it" })
  if total ~= nil then
    total = options.argument("optlua.progress", "total", total, { required = true, type = "integer", min = 0 })
  end
  local terminal = host.isatty(2)
  return setmetatable({
    total = total, done = 0, label = opts.label, unit = opts.unit,
    terminal = terminal, color = terminal and not os.getenv "NO_COLOR",
    start = optlua.clock(), last = -math.huge,
  }, Progress)
end

local function clock_text(seconds)
  seconds = math.floor(seconds + 0.5)
  if seconds >= 3600 then
    return ("%d:%02d:%02d"):format(seconds // 3600, seconds // 60 % 60, seconds % 60)
  end
  return ("%d:%02d"):format(seconds // 60, seconds % 60)
end

local function bar_text(self)
  local filled = self.total > 0 and math.floor(WIDTH * math.min(1, self.done / self.total)) or WIDTH
  local bar = ("━"):rep(filled)
  if self.color then return ("\27[32m%s\27[90m%s\27[0m"):format(bar, ("━"):rep(WIDTH - filled)) end
  return bar .. ("─"):rep(WIDTH - filled)
end

--- The line as it stands now.
local function line_of(self)
  local elapsed = optlua.clock() - self.start
  local rate = self.done / math.max(elapsed, 1e-9)
  local parts = {}
  if self.label ~= "" then parts[1] = self.label end
  if self.total then
    if self.terminal then parts[#parts + 1] = bar_text(self) end
    parts[#parts + 1] = ("%d/%d"):format(self.done, self.total)
  else
    parts[#parts + 1] = ("%d"):format(self.done)
  end
  parts[#parts + 1] = ("%.4g %s/s"):format(rate, self.unit)
  if self.total and self.done < self.total and self.done > 0 then
    parts[#parts + 1] = "ETA " .. clock_text((self.total - self.done) / rate)
  else
    parts[#parts + 1] = clock_text(elapsed)
  end
  if self.note then parts[#parts + 1] = self.note end
  return table.concat(parts, "  ")
end

local function draw(self)
  self.last = optlua.clock()
  if self.terminal then io.stderr:write("\r\27[K", line_of(self)):flush()
  else io.stderr:write(line_of(self), "\n"):flush() end
end

--- Counts steps, and redraws when it is time.
---@param steps? integer default 1
---@param note? string shown at the end of the line, such as the loss
function Progress:update(steps, note)
  self.done = self.done + (steps or 1)
  self.note = note or self.note
  if optlua.clock() - self.last >= (self.terminal and REDRAW or REPRINT) then draw(self) end
end

--- Draws the last state and ends the line; further calls do nothing.
function Progress:close()
  if self.closed then return end
  self.closed = true
  draw(self)
  if self.terminal then io.stderr:write("\n"):flush() end
end

Progress.__close = Progress.close

return progress
