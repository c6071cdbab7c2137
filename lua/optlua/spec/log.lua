--- log: the records of a run, one a step, as JSON lines and as CSV.
--
-- A file that cannot be written is said once, and the run goes on; `failed` then tells.
local json_encode = require("optlua.core").hidden.json_encode

---@class optlua.Log
---@field failed boolean whether a file could not be written
local Log = {}
Log.__index = Log

local function open(self, path)
  local file, problem = io.open(path, "a")
  if not file then self:fail(path, problem) end
  return file
end

--- Opens the log of a folder; nil: none, records are dropped.
---@param folder string?
---@return optlua.Log
local function new(folder)
  local self = setmetatable({ failed = false, files = {} }, Log)
  if not folder then return self end
  for _, name in ipairs { "log.jsonl", "log.csv" } do
    local path = folder .. "/" .. name
    local file = open(self, path)
    if file then self.files[name] = { file = file, path = path } end
  end
  return self
end

--- Says once that a file cannot be written, and drops it.
function Log:fail(path, problem)
  self.failed = true
  io.stderr:write(("optlua: %s: the log cannot be written (%s); the run goes on\n"):format(path, problem))
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

local function cell(value)
  if value == nil then return "" end
  if math.type(value) == "float" then return ("%.17g"):format(value) end
  local text = tostring(value)
  return text:find '[,"\n]' and '"' .. text:gsub('"', '""') .. '"' or text
end

-- The columns of the CSV are those of the first record; what comes later and is new stands in the JSON lines only.
local function csv_line(self, record)
  if not self.columns then
    self.columns = { "step" }
    for key in pairs(record) do
      if key ~= "step" then self.columns[#self.columns + 1] = key end
    end
    table.sort(self.columns, function(a, b) return (a ~= "step" and "b" .. a or "a") < (b ~= "step" and "b" .. b or "a") end)
    put(self, "log.csv", table.concat(self.columns, ","))
  end
  local cells = {}
  for i, key in ipairs(self.columns) do cells[i] = cell(record[key]) end
  return table.concat(cells, ",")
end

--- Writes a record: numbers and words by name. Records of steps go into the CSV, others (`event = …`) do not.
---@param record table<string, any>
function Log:write(record)
  put(self, "log.jsonl", json_encode(record))
  if not record.event then put(self, "log.csv", csv_line(self, record)) end
end

function Log:close()
  for name, entry in pairs(self.files) do
    self.files[name] = nil
    local closed, problem = entry.file:close()
    if not closed then self:fail(entry.path, problem) end
  end
end

Log.__close = Log.close

return { new = new }
