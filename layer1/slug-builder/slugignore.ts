/** Which of the source's files does .slugignore keep out of the slug? The patterns are .gitignore's. */

type Rule = { isNegated: boolean; isForFoldersOnly: boolean; pattern: RegExp };

/** `path` is relative with `/`; for a folder, everything below it is out too. The last rule that matches decides. */
export function createIgnore(text: string): (path: string, isFolder: boolean) => boolean {
  const rules = text.split(/\r?\n/).flatMap(parseRule);
  return (path, isFolder) => {
    const last = rules.findLast((rule) => (isFolder || !rule.isForFoldersOnly) && rule.pattern.test(path));
    return last !== undefined && !last.isNegated;
  };
}

function parseRule(line: string): Rule[] {
  const trimmed = line.trim();
  if (trimmed === '' || trimmed.startsWith('#')) return [];
  const isNegated = trimmed.startsWith('!');
  const whole = isNegated ? trimmed.slice(1) : trimmed;
  const isForFoldersOnly = whole.endsWith('/');
  const glob = isForFoldersOnly ? whole.slice(0, -1) : whole;
  // A slash anywhere but at the end ties the pattern to the root.
  const isAnchored = glob.includes('/');
  const source = globSource(glob.replace(/^\//, ''));
  return [{ isNegated, isForFoldersOnly, pattern: new RegExp(`^${isAnchored ? '' : '(?:.*/)?'}${source}$`) }];
}

/** A regular expression of a pattern without its `!` and without a slash at either end. */
export function globSource(glob: string): string {
  return glob.replace(/\*\*\/|\/\*\*$|\*|\?|\\?[.+^${}()|[\]\\]/g, (token) => {
    if (token === '**/') return '(?:.*/)?';
    if (token === '/**') return '/.*';
    if (token === '*') return '[^/]*';
    if (token === '?') return '[^/]';
    return `\\${token.at(-1)}`;
  });
}
