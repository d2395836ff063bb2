#!/usr/bin/env python3
"""Generates random, hostile HTML pages, and computes the forms that a browser with scripting enabled has on each of them.

Usage: html_pages.py COUNT SEED > pages.json, or html_pages.py --page < page.html for the result of one page.
Output: [{"kind": "strict" or "lenient", "page", "base", "forms": [{"action", "method", "fields": [[name, value, type]]}]}].
"pointer_forms" is added where the result differs if the form element pointer alone decides on the owner (see Node).
"disputed" is added where a form starts within an open form (after an ignored end tag): Chromium then closes both with one tag.
"""
import json, random, re, sys  # noqa: E401
from html5lib import constants, html5parser  # noqa: E402
from html5lib.treebuilders import base as treebuilder  # noqa: E402

# Part 1: html5lib, corrected to the current HTML Standard for the tags of part 2 (which has no templates, for example).
HTML, MATHML, SVG = (constants.namespaces[name] for name in ("html", "mathml", "svg"))
LOWER, TABLE, FIELDS = constants.asciiUpper2Lower, constants.tableInsertModeElements, ("input", "button", "textarea", "select")
MODES = {"td": "inCell", "tr": "inRow", "tbody": "inTableBody", "thead": "inTableBody", "tfoot": "inTableBody", "th": "inCell",
         "caption": "inCaption", "colgroup": "inColumnGroup", "table": "inTable", "body": "inBody", "frameset": "inFrameset"}
PHASES, implied = html5parser.getPhases(False), html5parser.impliedTagToken
html5parser.specialElements = SPECIAL = constants.specialElements | {(SVG, "desc"), (SVG, "title")} | {
    (MATHML, name) for name in ("mi", "mo", "mn", "ms", "mtext", "annotation-xml")}
SCOPE = constants.scopingElements | {(HTML, "select")}  # `select` bounds a scope, like `table`, since 2025.
treebuilder.listElementsMap.update({None: (SCOPE, False), "button": (SCOPE | {(HTML, "button")}, False)})
# html5lib compares names without namespaces, and so takes foreign elements for HTML. Here, these have other names.
for constant in ("htmlIntegrationPointElements", "mathmlTextIntegrationPointElements"):
    setattr(html5parser, constant, {(namespace, "foreign " + name) for namespace, name in getattr(constants, constant)})

class Node:
    """An element and its form owner. The parser associates a new field with the form element pointer. As in the DOM, a field
    without this association gets its nearest ancestor form when it is inserted. A field that is no longer in the tree of its
    owner (the adoption agency algorithm moves elements) loses the association and gets its nearest ancestor form as well."""
    def __init__(self, name, namespace=HTML, attributes=None):
        self.name = name if namespace == HTML or name == "annotation-xml" else "foreign " + name
        self.namespace, self.nameTuple, self.attributes = namespace, (namespace, name), attributes or {}
        self.parent, self.childNodes, self.text, self.owner, self.pointer, self.isAssociated = None, [], "", None, None, False
    def walk(self):
        return [self] + [node for child in self.childNodes for node in child.walk()]
    def ancestors(self):
        return [self] + (self.parent.ancestors() if self.parent else [])
    def resetOwner(self):
        self.isAssociated, self.owner = False, next((node for node in self.ancestors() if node.name == "form"), None)
    def insertBefore(self, node, reference=None):
        if node.parent:
            node.parent.removeChild(node)
        self.childNodes.insert(self.childNodes.index(reference) if reference else len(self.childNodes), node)
        node.parent = self
        for field in node.walk():
            if field.name in FIELDS and not field.isAssociated:
                field.resetOwner()
    appendChild = insertBefore
    def removeChild(self, node):
        self.childNodes.remove(node)
        node.parent = None
        for field in self.ancestors()[-1].walk() + node.walk():
            if field.owner and field.ancestors()[-1] is not field.owner.ancestors()[-1]:
                field.resetOwner()
    def insertText(self, data, insertBefore=None):
        self.text += data
    def cloneNode(self):
        return Node(self.nameTuple[1], self.namespace, dict(self.attributes))

class TreeBuilder(treebuilder.TreeBuilder):
    elementClass, documentClass = Node, lambda self: Node("#document")
    insertComment = insertDoctype = lambda self, *arguments: None
    def insertElementNormal(self, token):
        node, parent, reference = self.createElement(token), self.openElements[-1], None
        if self.insertFromTable and parent.name in TABLE:
            parent, reference = self.getTableMisnestedNodePosition()
        node.isNested = node.name == "form" and any(other.name == "form" for other in self.openElements)
        if node.name in FIELDS and self.formPointer:
            node.owner = node.pointer = self.formPointer
            node.isAssociated = parent.ancestors()[-1] is self.formPointer.ancestors()[-1]
        parent.insertBefore(node, reference)
        self.openElements.append(node)
        return node
    insertElementTable = insertElementNormal

class InBody(PHASES["inBody"]):
    def processStartTag(self, token):
        name, tree = token["name"], self.tree
        self.parser.framesetOK &= name not in ("textarea", "select")
        if name == "textarea":  # html5lib processes its text like any other, and so inserts formatting elements.
            return self.parser.parseRCDataRawtext(token, "RCDATA")
        if name in ("option", "optgroup"):  # There is no mode "in select" since 2025: its content is parsed like any other.
            if tree.elementInScope("select"):
                tree.generateImpliedEndTags("optgroup" if name == "option" else None)
            elif tree.openElements[-1].name == "option":
                tree.openElements.pop()
            return self.startTagOther(token)
        if name == "hr" and tree.elementInScope("select"):
            tree.generateImpliedEndTags()
        if name == "select":
            return self.endTagBlock(token) if tree.elementInScope("select") else self.startTagOther(token)
        closed = {"input": "select", "button": "button"}.get(name)
        if closed and tree.elementInScope(closed):
            self.endTagBlock(implied(closed))  # In tables, html5lib loses a button that closes another one.
        return super().processStartTag(token)
    def processEndTag(self, token):
        self.parser.framesetOK &= token["name"] != "br"  # html5lib forgets this.
        if self.endTagHandler[token["name"]].__name__ == "endTagFormatting":
            return self.endTagFormatting(token)
        return self.endTagBlock(token) if token["name"] == "select" else super().processEndTag(token)
    def endTagFormatting(self, token):
        """The adoption agency algorithm. html5lib's is older: its first steps, inner loop and bookmark are different."""
        tree, stack, active = self.tree, self.tree.openElements, self.tree.activeFormattingElements
        if stack[-1].name == token["name"] and stack[-1] not in active:
            return stack.pop() and None
        for _ in range(8):
            element = tree.elementInActiveFormattingElements(token["name"])
            if not element:
                return self.endTagOther(token)
            if element not in stack:
                return active.remove(element)
            if not tree.elementInScope(element):
                return None
            index = stack.index(element)
            block = last = next((node for node in stack[index:] if node.nameTuple in SPECIAL), None)
            if not block:
                del stack[index:]
                return active.remove(element)
            ancestor, bookmark = stack[index - 1], element
            for count, node in enumerate(stack[stack.index(block) - 1:index:-1], 1):
                if node not in active or count > 3:
                    stack.remove(node)
                    active[:] = [entry for entry in active if entry is not node]
                    continue
                clone = stack[stack.index(node)] = active[active.index(node)] = node.cloneNode()
                bookmark = clone if last is block else bookmark
                clone.appendChild(last)
                last = clone
            isFostered, clone = tree.insertFromTable and ancestor.name in TABLE, element.cloneNode()
            parent, reference = tree.getTableMisnestedNodePosition() if isFostered else (ancestor, None)
            parent.insertBefore(last, reference)
            for child in list(block.childNodes):
                clone.appendChild(child)
            block.appendChild(clone)
            active.insert(active.index(bookmark) + 1, clone)
            stack.insert(stack.index(block) + 1, clone)
            active.remove(element)
            stack.remove(element)

class InForeignContent(PHASES["inForeignContent"]):
    def processEndTag(self, token):
        if token["name"] in ("br", "p"):  # These end foreign content, like their start tags.
            super().processStartTag(implied("p", "StartTag"))
        stack, index = self.tree.openElements, len(self.tree.openElements) - 1
        while stack[index].namespace != HTML:
            if stack[index].nameTuple[1].translate(LOWER) == token["name"]:
                del stack[index:]
                return None
            index -= 1
        return self.parser.phase.processEndTag(token)

PHASES.update(inBody=InBody, inForeignContent=InForeignContent)
PHASES["afterBody"].processSpaceCharacters = lambda self, token: self.parser.phases["inBody"].processSpaceCharacters(token)
html5parser.HTMLParser.resetInsertionMode = lambda self: setattr(  # html5lib's expects no tables in select elements.
    self, "phase", self.phases[next(MODES[node.name] for node in self.tree.openElements[::-1] if node.name in MODES)])

# The types of an `input` element: section 4.10.5. The type is text if the attribute has another value.
TYPES = set("""button checkbox color date datetime-local email file hidden image month number password radio range reset search submit
               tel text time url week""".split())

def selected(select):
    """The values of a `select` element that a browser submits."""
    options = [node for node in select.walk() if node.name == "option"]
    isMultiple, size = "multiple" in select.attributes, re.match(r"[ \t\n\f\r]*\+?(\d+)", select.attributes.get("size", ""), re.A)
    chosen = [option for option in options if "selected" in option.attributes][0 if isMultiple else -1:]
    isDisabled = lambda option: any("disabled" in node.attributes for node in (option, option.parent) if node.name in ("option", "optgroup"))
    if not chosen and not isMultiple and (not size or int(size[1]) <= 1):
        chosen = [option for option in options if not isDisabled(option)][:1]
    return [option.attributes.get("value", " ".join(re.split(r"[ \t\n\f\r]+", option.text.strip(" \t\n\f\r"))))
            for option in chosen if not isDisabled(option)]

def expected(page):
    """The result for one page. "forms" follows the Standard, "pointer_forms" only the form element pointer."""
    # html5lib treats `<!--`, NUL, `>` as a complete comment. In all contexts, U+FFFD has the effect that this NUL must have.
    nodes, results = html5parser.HTMLParser(TreeBuilder).parse(re.sub("(<!---?)\0", "\\1\ufffd", page), scripting=True).walk(), []
    ids = {node.attributes["id"]: node for node in reversed(nodes) if node.attributes.get("id")}
    for owner in ("owner", "pointer"):
        forms = {node: {"action": node.attributes.get("action", ""), "method": node.attributes.get("method", "get").translate(LOWER),
                        "fields": []} for node in nodes if node.name == "form"}
        for node, attributes, kind in ((node, node.attributes, node.name) for node in nodes if node.name in FIELDS):
            form = forms.get(ids.get(attributes["form"]) if "form" in attributes else getattr(node, owner))
            if not form or any("disabled" in other.attributes for other in node.ancestors() if other is node or other.name == "fieldset"):
                continue
            value = node.text[node.text[:1] == "\n":] if kind == "textarea" else ""  # The parser ignores one initial line feed.
            if kind in ("input", "button"):
                isInput, kind = kind == "input", attributes.get("type", "text" if kind == "input" else "submit").translate(LOWER)
                value = attributes.get("value", "on" if isInput and kind in ("checkbox", "radio") else "")
                if isInput and kind not in TYPES: kind = "text"
                if not isInput and kind not in ("reset", "button"): kind = "submit"
            for value in selected(node) if kind == "select" else [value]:
                form["fields"].append([attributes.get("name", ""), value, kind])
        results.append(list(forms.values()))
    bases = [node.attributes["href"] for node in nodes if node.name == "base" and "href" in node.attributes]
    notes = {"pointer_forms": results[1] if results[0] != results[1] else None, "disputed": any(form.isNested for form in forms)}
    return {"base": bases[0] if bases else None, "forms": results[0], **{key: note for key, note in notes.items() if note}}

# Part 2: the generator, a grammar. ␠␉␊␌␍␀ stand for these characters, and ␄ for nothing. The first alternative must be finite.
RULES = {line.split(": ")[0]: line.split(": ", 1)[1].split(" | ") for line in """
start: ␄ | <!DOCTYPE html> | <!doctype HTML PUBLIC '-//W3C//DTD HTML 4.01//EN'>␊ | <html><head> | <html id=f><body> | ␠<!-- c --><title>{text}</title>
base: ␄ | ␄ | <base{s}href{value}{close}
items: {item} | {item} | {item}{items} | {item}{item}
item: {field} | {field} | {field} | {field} | {field} | {form} | {form} | {block} | {block} | {comment} | {raw} | {text} | {stray}
form: <form{action}{method}{id}{junk}{close}{items}</form{end} | <form{action}{method}{id}{close}{items} | <form{action}{method}{id}>{items}</form{end}
action: {s}action{value} | {s}action{value} | {s}action{value} | {s}action{value} | ␄ | {s}action | {s}action=
method: ␄ | {s}method{eq}"get" | {s}method{eq}"POST" | {s}method{eq}'post' | {s}method{eq}'p&#111;st' | {s}method="d&#105;alog"
field: {input} | {input} | {input} | <button{s}name{eq}{name}{kind}{content}{refer}{junk}{close}{text}</button{end} | {textarea}
input: <input{kind}{s}name{eq}{name}{content}{refer}{junk}{close} | <input{s}name{eq}{name}{kind}{content}{id}{refer}{close}
textarea: <textarea{s}name{eq}{name}{refer}{junk}{close}{rcdata}{rcdata}</textarea{end} | <textarea{s}name{value}>␊{rcdata}</textarea{end}
select: <select{s}name{eq}{name}{refer}{size}{junk}{close}{options}</select{end} | <select{s}name{eq}{name}{size}{close}{option}{options}
options: ␄ | {option}{options} | {option}{options} | {group}{options} | {option}{option}{option} | {text}{options} | <hr>{options} | </option>{options}
group: <optgroup{close}{options}</optgroup{end} | <optgroup{s}disabled{close}{option}{option}</optgroup> | <optgroup{s}disabled{close}{option} | </optgroup>
option: <option{close}{text}</option{end} | <option{content}{chosen}{close}{text} | <option{chosen}{s}value{value}{close}{text}</option> | <option{chosen}{close}{text}
chosen: ␄ | ␄ | ␄ | {s}selected | {s}SELECTED="" | {s}disabled | {s}selected{s}disabled
size: ␄ | ␄ | ␄ | {s}multiple | {s}size{eq}1 | {s}size=3 | {s}size=0 | {s}size="␠+2x" | {s}size=-1 | {s}size=x
kind: ␄ | {s}type{eq}{type} | {s}type{eq}'{type}' | {s}type{eq}"{type}"
type: text | password | hidden | checkbox | radio | submit | image | reset | HIDDEN | pass&#119;ord | &#x43heckbox | email | chec\u212abox
name: a | b | "c" | 'd' | "{double}" | '{single}'
content: ␄ | {s}value{value} | {s}value{value} | {s}value{value}
refer: ␄ | ␄ | ␄ | ␄ | ␄ | ␄ | ␄ | {s}form{eq}{identifier} | {s}disabled | {s}disabled=""
id: ␄ | ␄ | {s}id{eq}{identifier}
identifier: f | "f" | 'g' | g␠ | G | "x" | "" | '&#102;'
value: {eq}"{double}" | {eq}"{double}" | {eq}'{single}' | {eq}'{single}' | {eq}{bare} | {eq}{bare}/
eq: = | = | = | = | = | = | = | ␠= | =␠ | ␊=␉ | ␌=␍␊
s: ␠ | ␠ | ␠ | ␠ | ␠ | ␠ | ␠ | ␠ | ␠ | ␠ | ␠ | ␠ | ␠ | ␠ | ␠ | ␠ | ␠␠ | ␊ | ␉ | / | ␠/␠ | ␍␊ | ␌ | ␍ | ␄
close: > | > | > | > | > | > | > | /> | ␠/> | ␠> | ␊> | /␠> | //> | =>
end: > | > | > | > | > | > | ␠> | /> | ␊> | ␠a='>'> | ␌/x>
junk: ␄ | ␄ | ␄ | ␄ | ␄ | ␄ | ␄ | ␄ | {s}name=dup | {s}NAME='d2' | {s}value | {s}action=/dup | {s}type=text | {s}id=f | ␠= | ␠=x=y | ␠x<y | ␠a␀=1 | ␠data-x='>' | ␠" | ␠'␠ | ␠<p | ␠value= | ␠/=/
stray: </form> | </p> | </div> | </b> | </a> | </button> | </x> | </br> | </body> | </html> | </td> | </script> | </textarea> | <body{id}> | <html{id}> | <head> | {base}
text: {word} | {word}{reference} | {reference} | {reference}{word} | {word}{word}{reference}{word} | ␄
rcdata: {text} | {text} | ␊ | <!-- | --> | <form action=/raw> | <input name=raw> | </form> | </textare> | </ textarea> | <b> | </x | ␀ | < | </
cdata: {word} | <!--<script></script>--> | <!-- <script> </script> --> | <!--<script>--></script> | <!--<script></script><form action=/esc> | <!-- | --> | --!> | <!--> | <!---> | <script> | <SCRIPT␠> | <scriptx> | </script | </scriptx> | </ script> | <script/ | &amp; | <form action=/raw> | <input name=raw> | </form> | <![CDATA[ | ]]> | </ | < | <! | -- | ␀
word: a | B2 | /x?y=1&z=2 | https://h.example/p | //o | #f | é | 漢 | 😀 | \u212a | ␠ | ␉ | ␊ | ␍␊ | ␍ | ␌ | ␊␊ | ' | " | < | > | = | ` | / | --> | ]]> | </form> | <input name=fake> | \u0085 | \u00a0
reference: &amp; | &sol; | &colon; | &quot; | &apos; | &lt | &gt; | &AMP | &nbsp | &eacute | &Eacute; | &szlig; | &copy | &copy= | &copyx | &copy1 | &notit; | &not= | &notin; | &ampx=1 | &para=1 | &sect= | &reg_id | &ne; | &eth; | &nosuch; | & | && | &; | &#; | &#x; | &#xg | &#47; | &#47 | &#x2f | &#X2F; | &#0; | &#x80; | &#128 | &#x85 | &#150; | &#159; | &#x9f; | &#x81; | &#13; | &#10; | &#xD800; | &#xdfff | &#x110000; | &#99999999999; | &#xFFFF; | &#x1F600; | &#0000065 | &#9 | &#38;lt; | &hellip
comment: <!--> | <!---> | <!----> | <!-----> | <!----!> | <!--x--!> | <!--x--> | <!--x--!-- --> | <!--x---> | <!--x-- > --> | <!- --> | <!- - x> | <!x> | <!> | <!-x-> | <!<> | <!--<!--> | <!--<!--x--> | <!--<!- --> | <!--␀>--> | <!---␀>--> | <!--x-->y--> | <!--<form action=/c>--> | <!--><input name=k1>--> | <!---><input name=k2>--> | <!--x--!><input name=k3>--> | <!--x-- ><input name=k4>--> | <!--><!--> | <![CDATA[x]]> | <![CDATA[<form action=/d><input name=d>]]> | <![cdata[>]]> | <!--x-- | <?php echo '>' ?> | <?xml version='1.0'?> | <?> | <? x?> | </ x> | </ form> | </> | <> | </3> | <3 | < form action=/e> | <=> | <!DOCTYPE html> | <!doctype> | <!doctype x PUBLIC '>'> | <!ELEMENT br> | </!form> | </?> | </--> | <␀form> | <form␀> | </form␀> | </form a='>'> | <!--{text}-->
""".strip().split("\n")}
RULES["block"] = [f"<{name}{{id}}{{close}}{{items}}" + end for name in ("div", "p", "a", "b", "fieldset", "x", "option", "tr", "fieldset disabled")
                  for end in ("</" + name.split()[0] + "{end}", "</" + name.split()[0] + ">", "")]
RULES["raw"] = [f"<{name}{{close}}{{cdata}}{{cdata}}{{cdata}}</{name}{{end}}" for name in "script script style xmp iframe noscript noembed noframes title".split()]
RULES["lenient"] = [f"<{names}{{close}}{{items}}" + end for names in (
    "svg", "svg><desc", "svg><title", "svg><foreignObject", "svg><script", "svg><a", "math", "math><mi", "math><mtext", "math><annotation-xml",
    "math><annotation-xml encoding='text/html'", "select", "select><option", "select><optgroup", "table", "table><tr", "table><tr><td", "table><caption",
    "tbody", "td", "font color=x", "font", "plaintext", "frameset") for end in ("", "</" + re.split("[ >]", names)[0] + "{end}", "</td>{item}</table>")] + ["{select}"] * 20
RULES = {symbol: [re.split(r"\{(\w+)\}", text) for text in alternatives] for symbol, alternatives in RULES.items()}

class Generator(random.Random):
    def expand(self, symbol, depth=0):
        alternatives = self.rules.get(symbol) or self.rules["text"]  # double, single, bare
        parts = alternatives[0] if depth > 8 and symbol in ("items", "item") else alternatives[int(self.random() * len(alternatives))]
        text = "".join([self.expand(part, depth + 1) if index % 2 else part for index, part in enumerate(parts)])
        text = (re.sub(r"[\s␠␉␊␌␍>\"']", "", text) or "v") if symbol == "bare" else text
        return text.replace(*{"double": ('"', "&quot;"), "single": ("'", "&#39")}.get(symbol, ("", "")))
    def page(self):
        isLenient = self.random() < 0.3
        self.rules = {**RULES, "item": RULES["item"] + [("", "lenient")] * 3} if isLenient else RULES
        symbols = f"start base items {'lenient' if isLenient else 'form'} items form items".split()
        tags = re.split("(?=<)", "".join(map(self.expand, symbols)))
        for _ in range(self.choice((0, 0, 0, 1, 2, 4))):  # Tags in the wrong place.
            tags.insert(self.randrange(len(tags)), tags.pop(self.randrange(len(tags))))
        page = "".join(tags).translate(str.maketrans("␠␉␊␌␍␀", " \t\n\f\r\0", "␄"))
        page = re.sub(r"(?<=[</\s])[a-z]+(?=[\s=>/])", lambda match: self.choice([match[0]] * 6 + [match[0].upper(), match[0].title()]), page)
        for _ in range(self.choice((0,) * 9 + (1, 2, 5))):  # Typing errors.
            index = self.randrange(len(page))
            page = page[:index] + self.choice(("", "<", ">", '"', "'", "=", "/", "&", "!", "-", " ")) + page[index + self.choice((0, 1)):]
        page = page[:self.randrange(len(page))] if self.random() < 0.12 else page
        return page + self.choice([""] * 60 + ["<input name=z", "<form action='", '<input name=z value="', "<!--", "</form", "<", "</", "&am", "<textarea>"])

def pages(count, seed):
    texts = (Generator(f"{seed}/{index}").page() for index in range(int(count)))
    lenient = "(?i)</?(svg|math|select|template|table|td|frameset|plaintext)"
    return [{"kind": "lenient" if re.search(lenient, page) else "strict", "page": page, **expected(page)} for page in texts]

if __name__ == "__main__":
    json.dump(expected(sys.stdin.read()) if sys.argv[1] == "--page" else pages(*sys.argv[1:]), sys.stdout, indent=1)
