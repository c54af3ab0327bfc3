/** What does .gitmodules say of the submodules in a folder, told from there? Pure. */

/** `listed`: what `git config --null --list` says of it. Names are made anew: only paths and addresses are read. */
export function modulesBelow(folder: string, listed: string): string {
  const paths = new Map<string, string>();
  const urls = new Map<string, string>();
  for (const entry of listed.split('\0')) {
    const [, name, field, value] = /^submodule\.(.+)\.(path|url)\n(.*)$/s.exec(entry) ?? [];
    if (name === undefined || value === undefined) continue;
    (field === 'path' ? paths : urls).set(name, value);
  }
  const told = [...paths].flatMap(([name, path]) => {
    const url = urls.get(name);
    return url === undefined || !path.startsWith(`${folder}/`) ? [] : [{ path: path.slice(folder.length + 1), url }];
  });
  return told
    .map(({ path, url }, at) => `[submodule "${at}"]\n\tpath = ${quoted(path)}\n\turl = ${quoted(url)}\n`)
    .join('');
}

/** As git's configuration takes any text. */
function quoted(text: string): string {
  return `"${text
    .replaceAll(/["\\]/g, String.raw`\$&`)
    .replaceAll('\n', String.raw`\n`)
    .replaceAll('\t', String.raw`\t`)}"`;
}
