--- topics: entries of the documentation that are about whole parts of the library (`help "optim"`), and about the
--- kinds of schedules.
local files = require "optlua.files"
local options = require "optlua.options"

local topics = {}

-- The parts of the library; the first comment of the file of that name, or of `file`, explains each.
local parts = {
  { name = "data", page = "data" }, { name = "data.transforms", page = "data" }, { name = "datasets", page = "library" },
  { name = "distributions", page = "library" }, { name = "losses", page = "library" },
  { name = "metrics", page = "metrics" }, { name = "models", page = "library" }, { name = "nn", page = "nn" },
  { name = "nn.functional", page = "nn" }, { name = "nn.init", page = "nn", file = "nn.initialization" },
  { name = "nn.utils", page = "nn" },
  { name = "optim", page = "optim" }, { name = "optim.groups", page = "optim" },
  { name = "schedule", page = "schedule" }, { name = "testing", page = "library" },
}

-- The comment that begins a file, without its name.
local function header(part)
  local path = package.searchpath("optlua." .. (part.file or part.name), package.path)
  local text = {}
  for _, line in ipairs(path and files.lines(path) or {}) do
    local words = line:match "^%-%-+ ?(.*)"
    if not words then break end
    text[#text + 1] = words
  end
  return (table.concat(text, "\n"):gsub("^[%w_]+: ", ""))
end

local function capital(text) return (text:gsub("^%l", string.upper)) end

-- Words in lines of at most 100 characters, indented by two.
local function wrapped(words)
  local lines, line = {}, " "
  for _, word in ipairs(words) do
    if #line + #word > 100 then
      lines[#lines + 1] = line
      line = " "
    end
    line = line .. " " .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

-- The names that a part holds, as its entries have them, or as it lists them itself.
local function names_in(entries, part)
  local prefix, names, seen = part.name .. ".", {}, {}
  local function note(name)
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  for _, entry in ipairs(entries) do
    local rest = entry.name:sub(1, #prefix) == prefix and entry.name:sub(#prefix + 1)
    if rest and not rest:find ":" then note((rest:gsub("%..*", ".…"))) end
  end
  local value = require("optlua." .. (part.file or part.name))
  if #names == 0 and rawget(value, "list") then
    for _, name in ipairs(value.list()) do note(name) end
    for _, name in ipairs { "list", "register", "resolve", "unregister" } do note(name) end
  end
  table.sort(names)
  return names
end

--- Adds an entry for each part: what it is, and which names it holds.
---@param entries optlua.doc.Entry[] the names are taken from them
function topics.add_parts(entries)
  for _, part in ipairs(parts) do
    local name = "optlua." .. part.name
    entries[#entries + 1] = {
      name = name, page = part.page, signature = name,
      text = capital(header(part)) .. "\n\nNames in it:\n" .. wrapped(names_in(entries, part)),
    }
  end
end

--- What can be asked for, in a few lines.
---@return string
function topics.overview()
  local lines = {}
  for k, part in ipairs(parts) do
    local text = header(part):gsub("\n", " ")
    lines[k] = ("  %-16s %s"):format(part.name, capital(text:match "^(.-)[.:;]%s" or text:gsub("%.$", "")))
  end
  return 'Parts of the library, each with a help of its own (help "nn"):\n' .. table.concat(lines, "\n")
    .. '\nAnd, for example, "tensor indexing", "module:save", "container", "spec", "wrapper", "define".'
end

--- Adds an entry for each kind of schedules.
---@param entries optlua.doc.Entry[]
---@param line fun(name: string, option: any): string describes an argument
function topics.add_schedules(entries, line)
  local schedule = require "optlua.schedule"
  for _, name in ipairs(schedule.list()) do
    local kind = schedule.resolve(name)
    local text = { (kind.doc or "A schedule that a script registered") .. "." }
    for _, arg in ipairs(options.names(kind.args)) do text[#text + 1] = line(arg, kind.args[arg]) end
    entries[#entries + 1] = { name = "schedule." .. name, page = "schedule", section = "Schedules",
      signature = ("schedule.%s { … }"):format(name), text = table.concat(text, "\n") }
  end
end

return topics
