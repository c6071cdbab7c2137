-- Writes the reference: one page of Markdown for each part of the library, an index of names, and
-- optlua.lua: LuaCATS definitions of the C part for lua-language-server.
--   build/optlua scripts/dev/docs.lua [FOLDER]        (default: build/docs)
local doc = require "optlua.doc"

local folder = arg[1] or "build/docs"
os.execute(("mkdir -p '%s'"):format(folder))

local function anchor(entry)
  return (entry.name:lower():gsub("[^%w_]+", "-"))
end

local function page_text(name, entries)
  local lines, section = { "# " .. name, "" }, nil
  for _, entry in ipairs(entries) do
    if entry.section ~= section then
      section = entry.section
      lines[#lines + 1] = ("## %s\n"):format(section)
    end
    lines[#lines + 1] = ('<a id="%s"></a>\n### %s\n'):format(anchor(entry), entry.name)
    lines[#lines + 1] = ("```\n%s\n```\n"):format(doc.text(entry))
  end
  return table.concat(lines, "\n")
end

local function write(name, text)
  local file = assert(io.open(("%s/%s"):format(folder, name), "w"))
  assert(file:write(text, "\n"))
  assert(file:close())
end

-- What belongs to no section of its page stands before the sections.
local function ordered(entries)
  local list = {}
  for _, with_section in ipairs { false, true } do
    for _, entry in ipairs(entries) do
      if (entry.section ~= nil) == with_section then list[#list + 1] = entry end
    end
  end
  return list
end

local pages, order, index = {}, {}, { "# optlua: reference\n" }
for _, entry in ipairs(doc.entries()) do
  if not pages[entry.page] then
    pages[entry.page] = {}
    order[#order + 1] = entry.page
  end
  table.insert(pages[entry.page], entry)
end
for _, page in ipairs(order) do
  pages[page] = ordered(pages[page])
  write(page .. ".md", page_text(page, pages[page]))
  index[#index + 1] = ("## [%s](%s.md)\n"):format(page, page)
  local links = {}
  for k, entry in ipairs(pages[page]) do links[k] = ("[`%s`](%s.md#%s)"):format(entry.name, page, anchor(entry)) end
  index[#index + 1] = table.concat(links, " · ") .. "\n"
end
write("index.md", table.concat(index, "\n"))
write("optlua.lua", require("optlua.annotations").text())
print(("%s: %d pages"):format(folder, #order + 1))
