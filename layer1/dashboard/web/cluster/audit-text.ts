/** What somebody did, in a line: the route's method as a verb, its path with the names it was asked with. Pure. */
const verbs: Readonly<Record<string, string>> = { POST: 'made', PUT: 'set', PATCH: 'changed', DELETE: 'removed' };

export function actionText(action: string, params: Readonly<Record<string, string>>): string {
  const filled = action.replaceAll(/:(\w+)/g, (whole, name: string) => params[name] ?? whole);
  const [method = '', path = ''] = filled.split(' ');
  const verb = verbs[method];
  return verb === undefined || !path.startsWith('/') ? filled : `${verb} ${path.slice(1)}`;
}
