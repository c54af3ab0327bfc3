/** Whether an error is the system's of that name. */
export function hasErrno(error: unknown, name: string): boolean {
  return error instanceof Error && 'code' in error && error.code === name;
}
