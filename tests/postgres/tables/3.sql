CREATE INDEX webhook_deliveries_of_prediction ON webhook_deliveries (prediction_id);
