--- topics: entries of the documentation that are about whole parts of the library (`help "optim"`), and about the
--- kinds of schedules.
local files = require "optlua.files"
local options = require "optlua.options"

local topics = {}

-- The parts of the library; the first comment of the file of that name, or of `file`, explains each.
local parts = {
  { name = "checkpoint", page = "checkpoint" },
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

-- What a state holds, as its definition for editors says it.
local function state_fields()
  local text = {}
  for _, line in ipairs(files.lines(package.searchpath("optlua.spec.state", package.path))) do
    local name, rest = line:match "^%-%-%-@field ([%w_]+) (.*)"
    if name then text[#text + 1] = ("  %s: %s"):format(name, rest) end
  end
  return table.concat(text, "\n")
end

-- Sections of a spec's config that are not explained with what reads them.
local sections = {
  optimizer = [[
The optimizer of a spec: a class, by its name or as { class = …, arguments }. What build_optimizers is handed as `default` reads it,
or nothing where build_optimizers replaces that.]],
  lr_scheduler = [[
The schedule of a spec's optimizer: a name, { class = …, arguments }, or a function of the updates that gives the factor.
interval = "epoch" lets it count epochs. How long the run is it knows by itself. It holds for all groups; for one each see
config.lr_schedulers.]],
  groups = [[
Groups of parameters, a list as optim.container takes it: { name =, match =, hyperparameters … }; what one leaves out comes from
the section optimizer. --groups.NAME.KEY=VALUE reaches one on the command line.]],
  optimizers = [[
Several optimizers by name, for a model that owns configure_optimizers(self, make), where make.optimizers.NAME(parameters)
makes one of its section. train_step then makes the updates itself.
    config = { optimizers = { g = { class = "Adam", lr = 1e-4 }, d = { class = "SGD", lr = 1e-2 } }, lr_schedulers = { g = "cosine" } }
    function Net:configure_optimizers(make)
      local optimizers = { g = make.optimizers.g(self.g), d = make.optimizers.d(self.d) }
      return optimizers, { g = make.lr_schedulers.g(optimizers.g) }
    end]],
  lr_schedulers = [[
Several schedules by name, for a model that owns configure_optimizers(self, make), where make.lr_schedulers.NAME(optimizer)
makes one of its section: see config.optimizers. Two schedules in one container are made by build_lr_schedulers, which returns
optim.lr_scheduler(optimizers, { GROUP = schedule, … }).]],
}

--- Adds what a spec's callbacks are handed, and sections of its config.
---@param entries optlua.doc.Entry[]
function topics.add_spec(entries)
  entries[#entries + 1] = { name = "state", page = "library", signature = "state",
    text = "What a run of a spec knows of itself; train_step and callbacks are handed it. It can be told to log, histogram, say and\n"
      .. 'stop (help "state:stop"). A learning rate is state.optimizers.groups.NAME.lr (default, where there are no groups).\n' .. state_fields() }
  for _, name in ipairs(options.names(sections)) do
    entries[#entries + 1] = { name = "config." .. name, page = "library", signature = "config." .. name, text = sections[name] }
  end
end

-- Options of containers and of groups.
local function add_container_options(entries, line)
  local of_all, of_groups = require("optlua.optim.container").settings, require("optlua.optim.group").settings
  local function add(name, option, signature, what)
    entries[#entries + 1] = { name = "container." .. name, page = "optim", section = "Options of optim.container",
      signature = signature:format(name), text = ("%s\n%s: see optim.container."):format(line(name, option), what:format(name)) }
  end
  for _, name in ipairs(options.names(of_all)) do
    add(name, of_all[name], "optim.container(model, …, { %s = … })", of_groups[name]
      and "An option of a container, and of its groups; in a spec --optimizer.%s, and in groups" or "An option of a container; in a spec --optimizer.%s")
  end
  for _, name in ipairs(options.names(of_groups)) do
    if not of_all[name] then
      add(name, of_groups[name], "optim.container(model, { { %s = …, … } })", "An option of a group of a container; in a spec, in groups")
    end
  end
end

--- Adds an entry for each option of a container, and for what the config and the command line of a spec know.
---@param entries optlua.doc.Entry[]
---@param line fun(name: string, option: any): string describes an option
function topics.add_options(entries, line)
  add_container_options(entries, line)
  local keys = require "optlua.spec" { name = "any" }:new_config().base
  for _, name in ipairs(options.names(keys)) do
    entries[#entries + 1] = { name = "config." .. name, page = "library", signature = ("config = { %s = … }, or --%s=…"):format(name, name),
      text = line(name, keys[name]) .. "\nA key of the config of a spec." }
  end
  for _, source in ipairs(files.lines(package.searchpath("optlua.spec.cli", package.path))) do
    local switch, text = source:match '^  { "(%-%-[^"]+)", "(.*)" },$'
    if switch then
      entries[#entries + 1] = { name = switch:match "^%S+", page = "library", signature = "optlua SCRIPT " .. switch,
        text = "A switch of the command line of a spec: " .. text:gsub('\\"', '"') .. "." }
    end
  end
end

--- Adds an entry for each command of the shell.
---@param entries optlua.doc.Entry[]
function topics.add_commands(entries)
  for _, name in ipairs { "check", "ckpt", "plot", "test" } do
    entries[#entries + 1] = { name = "optlua " .. name, page = "library", signature = "optlua " .. name,
      text = capital(header { name = name, file = "tools." .. name }) }
  end
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
