/** What a lock file says is to be installed, and nothing else: as lines for pip. */

export type LockedPackage = Readonly<{
  /** A line for pip: `name==1.0 ; markers`, `name @ git+https://…`, `./folder`. */
  requirement: string;
  /** `sha256:…` of what it may be installed from; none where nothing says. */
  hashes: readonly string[];
}>;

export type Lock = Readonly<{
  packages: readonly LockedPackage[];
  /** Where packages are looked for, beside the usual index. */
  indexes: readonly string[];
  /** Whether the app itself is a package that is to be installed beside them. */
  isPackage: boolean;
}>;

/** Two files: pip checks digests of all that it installs, or of nothing. */
export function requirementFiles({ packages, indexes }: Lock): { checked: string; unchecked: string } {
  const options = indexes.map((url) => `--extra-index-url ${url}\n`).join('');
  const linesOf = (some: readonly LockedPackage[]): string => {
    const lines = some.map(({ requirement, hashes }) => {
      return `${requirement}${hashes.map((hash) => ` --hash=${hash}`).join('')}\n`;
    });
    return lines.length === 0 ? '' : options + lines.join('');
  };
  return {
    checked: linesOf(packages.filter(({ hashes }) => hashes.length > 0)),
    unchecked: linesOf(packages.filter(({ hashes }) => hashes.length === 0)),
  };
}

export function withMarkers(requirement: string, markers: string | undefined): string {
  return markers === undefined || markers === '' ? requirement : `${requirement} ; ${markers}`;
}

/** A folder of the app's: without the `./` pip would look for a package of that name. */
export function folderOf(path: string): string {
  return /^(?:\.{0,2}\/|[a-z][a-z0-9+.-]*:)/i.test(path) ? path : `./${path}`;
}

/** The index that pip asks unless it is told otherwise: the cluster may have another in its place. */
export function isUsualIndex(url: string): boolean {
  return /^https:\/\/(?:pypi\.org|pypi\.python\.org|files\.pythonhosted\.org)(?:\/|$)/.test(url);
}
