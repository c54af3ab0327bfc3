import assert from 'node:assert/strict';
import { it } from 'node:test';
import { actionText } from './audit-text.ts';

it('what somebody did is told with the names it was asked with', () => {
  assert.equal(actionText('POST /apps/:app/routes', { app: 'shop' }), 'made apps/shop/routes');
  assert.equal(actionText('DELETE /hosts/:host/cordon', { host: 'h1' }), 'removed hosts/h1/cordon');
  assert.equal(actionText('PUT /apps/:app/formations/:release', { app: 'shop' }), 'set apps/shop/formations/:release');
  assert.equal(actionText('began :subject: :text', { subject: 'host h1', text: 'is away' }), 'began host h1: is away');
});
