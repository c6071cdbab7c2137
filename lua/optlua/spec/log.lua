--- log: the records of a run, one a step: JSON lines, CSV, and event files for TensorBoard.
--
-- Each record goes out at once. A file that cannot be written is said once, and the run goes on; `failed` then tells.
local files = require "optlua.files"
local host = require("optlua.core").hidden
local json_encode = host.json_encode

---@class optlua.Log
---@field failed boolean whether a file could not be written
---@field events userdata? the event file
local Log = {}
Log.__index = Log

-- Files of lines ---------------------------------------------------------------------------------------------

local function open(self, name)
  local path = self.folder .. "/" .. name
  local file, problem = io.open(path, "a")
  if file then
    self.files[name] = { file = file, path = path }
  else
    self:fail(path, problem)
  end
end

local function put(self, name, line)
  local entry = self.files[name]
  if not entry then return end
  local written, problem = entry.file:write(line, "\n")
  if written then written, problem = entry.file:flush() end
  if not written then
    self.files[name] = nil
    self:fail(entry.path, problem)
  end
end

local function float_text(value)
  if value ~= value then return "nan" end
  if value == 0 then return 1 / value < 0 and "-0.0" or "0" end
  return ("%.17g"):format(value)
end

local function cell(value)
  if value == nil then return "" end
  if math.type(value) == "float" then return float_text(value) end
  local text = tostring(value)
  return text:find '[,"\r\n]' and '"' .. text:gsub('"', '""') .. '"' or text
end

-- Names of a record in the order of the columns: the step first.
local function columns_of(record)
  local columns = {}
  for key in pairs(record) do
    if key ~= "step" then columns[#columns + 1] = key end
  end
  table.sort(columns)
  table.insert(columns, 1, "step")
  return columns
end

-- The columns that a file has already; nil: none yet, or quoted ones.
local function columns_in(path)
  local head = files.read(path, 65536) -- not by lines: a device may have none
  head = head and head:match "^([^\n]*)\n"
  if not head or head:find '"' or not head:find "^step" then return nil end
  local columns = {}
  for name in head:gmatch "[^,]+" do columns[#columns + 1] = name end
  return columns
end

local function line_of(columns, value_of)
  local cells = {}
  for i, key in ipairs(columns) do cells[i] = cell(value_of(key)) end
  return table.concat(cells, ",")
end

-- The columns of the CSV are those of the first record; what comes later and is new stands in the other files only.
-- A file that is continued keeps the columns that it has.
local function put_row(self, record)
  if not self.columns then
    self.columns = columns_of(record)
    put(self, "log.csv", line_of(self.columns, function(key) return key end))
  end
  put(self, "log.csv", line_of(self.columns, function(key) return record[key] end))
end

-- Event files ------------------------------------------------------------------------------------------------

-- A file of its own for each run: TensorBoard reads all of a folder.
local function open_events(self)
  local now = host.time()
  self.events_path = ("%s/events.out.tfevents.%.6f.optlua"):format(self.folder, now)
  local events, problem = host.events_create(self.events_path, now)
  self.events = events
  if not events then self:fail(self.events_path, problem) end
end

local function check_events(self, written, problem)
  if written then return end
  self.events = nil
  self:fail(self.events_path, problem)
end

-- TensorBoard groups tags by what stands before a slash: "validation/loss", "lr/default".
local function tag_of(record, name)
  if record.event then return record.event .. "/" .. name end
  return (name:gsub("%.", "/", 1))
end

local function put_scalars(self, record)
  if not self.events then return end
  local tags, values = {}, {}
  for _, name in ipairs(columns_of(record)) do
    local value = record[name]
    if type(value) == "number" and name ~= "step" and not (record.event and name == "epoch") then
      tags[#tags + 1], values[#values + 1] = tag_of(record, name), value
    end
  end
  if #tags > 0 then check_events(self, host.events_scalars(self.events, host.time(), record.step, tags, values)) end
end

-- The log ----------------------------------------------------------------------------------------------------

--- Opens the log of a folder; nil: none, records are dropped.
---@param folder string?
---@param opts? { tensorboard?: boolean } whether event files are written too
---@return optlua.Log
local function new(folder, opts)
  local self = setmetatable({ failed = false, said = {}, files = {}, folder = folder }, Log)
  if not folder then return self end
  open(self, "log.jsonl")
  self.columns = columns_in(folder .. "/log.csv")
  open(self, "log.csv")
  if opts and opts.tensorboard then open_events(self) end
  return self
end

--- Says, once for each file, that a file of the run cannot be written.
---@param path string
---@param problem string
function Log:fail(path, problem)
  self.failed = true
  if self.said[path] then return end
  self.said[path] = true
  problem = tostring(problem):gsub("^[^%s:]+:%d+: ", "") -- a position
  if problem:sub(1, #path + 2) == path .. ": " then problem = problem:sub(#path + 3) end
  problem = problem:gsub("^cannot be written: ", "")
  io.stderr:write(("optlua: %s: cannot be written (%s); the run goes on\n"):format(path, problem))
end

--- Takes over what another log has said.
---@param other optlua.Log
function Log:take_over(other)
  self.failed = self.failed or other.failed
  for path in pairs(other.said) do self.said[path] = true end
end

--- Takes the records behind a step out of the log of a folder, those of a run that went on from there before, and the beginning
--- of a line that a killed one has left, to which the next would be glued.
---@param folder string
---@param step number
---@param complain fun(path: string, problem: string) told what cannot be written
local function drop_later(folder, step, complain)
  for name, pattern in pairs { ["log.jsonl"] = '"step":(%d+)', ["log.csv"] = "^(%d+)," } do
    local path, kept = folder .. "/" .. name, {}
    local text = files.read(path) or ""
    for line in text:gmatch "[^\n]*\n" do
      local at = tonumber((line:match(pattern)))
      if not at or at <= step then kept[#kept + 1] = line end
    end
    local rest = table.concat(kept)
    local written, problem = true, nil
    if rest ~= text then written, problem = files.write(path, rest) end
    if not written then complain(path, problem) end
  end
end

--- Writes a record: numbers and words by name. Records of steps go into the CSV, others (`event = …`) do not.
---@param record table<string, any>
function Log:write(record)
  put(self, "log.jsonl", json_encode(record))
  if not record.event then put_row(self, record) end
  put_scalars(self, record)
end

--- Writes how the elements of tensors are distributed, into the event file.
---@param step integer
---@param tensors table<string, optlua.Tensor>
function Log:histograms(step, tensors)
  for _, name in ipairs(columns_of(tensors)) do
    local tensor = tensors[name]
    if tensor and self.events then
      check_events(self, host.events_histogram(self.events, host.time(), step, name, tensor))
    end
  end
end

--- Says in the event file that a run goes on: what earlier files hold of this step on is void.
---@param step integer
function Log:resume(step)
  if self.events then check_events(self, host.events_resume(self.events, host.time(), step)) end
end

function Log:close()
  for name, entry in pairs(self.files) do
    self.files[name] = nil
    local closed, problem = entry.file:close()
    if not closed then self:fail(entry.path, problem) end
  end
  if self.events then check_events(self, host.events_close(self.events)) end
  self.events = nil
end

Log.__close = Log.close

return { new = new, drop_later = drop_later }
