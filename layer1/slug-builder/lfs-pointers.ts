/** Which files of a source are pointers of Git LFS, and what to tell of them? Their content is on a server that nobody asks. */
const mostNamed = 5;

/** No pointer is larger, by the specification of Git LFS. */
export const mostPointerBytes = 1024;

export function isPointer(content: string): boolean {
  return /^version https?:\/\/\S+\/spec\/v1\n(?:ext-[^\n]*\n)*oid sha256:[0-9a-f]{64}\nsize \d+\n$/.test(content);
}

/** Undefined without any. */
export function pointerWarning(paths: readonly string[]): string | undefined {
  if (paths.length === 0) return undefined;
  const named = paths.slice(0, mostNamed).join(', ');
  const more = paths.length > mostNamed ? ` and ${paths.length - mostNamed} more` : '';
  const are = paths.length === 1 ? 'A file is a pointer' : `${paths.length} files are pointers`;
  return [
    `${are} of Git LFS, and the build has that in the place of the content:`,
    `${named}${more}`,
    'Builds ask no LFS server. If the app needs it, commit the content itself:',
    'git lfs untrack PATTERN && git add --renormalize . && git commit',
    'or fetch it in the build from where it is kept.',
  ].join('\n');
}
